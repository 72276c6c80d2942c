#include "server/http/http_connection.h"

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <iostream>
#include <new>
#include <optional>
#include <utility>  // before asio, whose headers use std::exchange without including it

#include "absl/strings/str_format.h"
#include "server/http/http_head.h"
#include "server/http/http_job.h"
#include "server/http/routes.h"

namespace thresher {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::seconds kIdleTimeout{75};   // for a request's head, from the one before
constexpr std::chrono::seconds kBodyTimeout{60};   // for a whole body
constexpr std::chrono::seconds kWriteTimeout{30};  // for a client that does not read
constexpr std::chrono::seconds kLinger{2};
constexpr std::uint32_t kMaxHeadBytes = 32 << 10;
constexpr std::size_t kMaxPipelinedBytes = 64 << 10;

std::string ToString(boost::string_view text) { return std::string(text.data(), text.size()); }

// Lets a coroutine wait for news with a time limit. I/O thread only.
class Event final {
 public:
  explicit Event(asio::io_context& io) : timer_(io) {}
  void Signal() {
    signalled_ = true;
    timer_.cancel();
  }
  // Ends at a signal, one given before the call included, or after the time.
  asio::awaitable<bool> Wait(std::chrono::nanoseconds limit) {
    if (!signalled_) {
      error_code ignored;
      timer_.expires_after(limit);
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_return std::exchange(signalled_, false);
  }

 private:
  asio::steady_timer timer_;
  bool signalled_ = false;
};

// A place in the registry for as long as it lives.
struct WakeTag {
  WakeTag(WakeRegistry& registry, std::function<void()> wake)
      : wakes(registry), value(registry.Add(std::move(wake))) {}
  WakeTag(const WakeTag&) = delete;
  ~WakeTag() { wakes.Remove(value); }
  WakeRegistry& wakes;
  const std::uint64_t value;
};

class Connection final : public HttpConnection, public std::enable_shared_from_this<Connection> {
 public:
  Connection(const ConnectionServices& services, tcp::socket socket, std::function<void()> closed)
      : services_(services),
        context_(services.context),
        stream_(std::move(socket)),
        news_(services.io),
        closed_(std::move(closed)) {}

  void Start() {
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    stream_.socket().non_blocking(true, ignored);
    asio::co_spawn(
        services_.io, [self = shared_from_this()] { return self->Run(); }, asio::detached);
  }

  void Close() override {
    closing_ = true;
    if (idle_) Abort();
  }

  void Abort() override {
    closing_ = gone_ = true;
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.cancel();
    news_.Signal();
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  asio::awaitable<void> Run() {
    try {
      while (!gone_) {
        const bool again = co_await ServeOne();
        if (!again) break;
      }
    } catch (const std::bad_alloc&) {
      std::clog << "level=error event=connection_closed error=\"out of memory\"\n";
    }
    StopWatching();
    error_code ignored;
    stream_.socket().close(ignored);
    closed_();
  }

  // Reads and answers one request. False: the connection is over.
  asio::awaitable<bool> ServeOne() {
    Parser parser;
    parser.header_limit(kMaxHeadBytes);
    parser.body_limit(static_cast<std::uint64_t>(context_.config.limits.max_body_bytes));
    error_code error;
    idle_ = buffer_.size() == 0;
    if (idle_ && closing_) co_return false;
    stream_.expires_after(kIdleTimeout);
    co_await http::async_read_header(stream_, buffer_, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
    idle_ = false;
    if (error) co_return co_await AnswerBadHead(error, parser);
    head_.http_1_0 = parser.get().version() < 11;
    head_.keep_alive = parser.get().keep_alive();
    head_.request_id = RequestIdFrom(ToString(parser.get()["x-request-id"]));
    head_.cors_allow_origin = context_.config.cors_allow_origin;

    HttpRequest request;
    request.method = ToString(parser.get().method_string());
    request.authorization = ToString(parser.get()[http::field::authorization]);
    request.attention_level = ToString(parser.get()["x-attention-level"]);
    request.request_id = head_.request_id;
    const Route& route = DecodePath(ToString(parser.get().target()), request.path)
                             ? FindRoute(request.path)
                             : FindRoute("");
    KeyGrant grant;
    Quota::Share body_bytes(context_.body_bytes);
    std::optional<HttpReply> early = AnswerBeforeBody(route, request, context_, grant);
    if (early.has_value()) {
      // A body that was not read would be taken for the next request.
      if (!parser.is_done()) head_.keep_alive = false;
      co_return co_await Send(*early, request.method == "HEAD");
    }
    if (!parser.is_done()) {
      stream_.expires_after(kBodyTimeout);
      if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
        constexpr boost::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        co_await asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                                   asio::redirect_error(asio::use_awaitable, error));
      }
      const absl::Status room = co_await ReadBody(parser, body_bytes, error);
      if (error) co_return co_await AnswerBadHead(error, parser);
      if (!room.ok()) {
        head_.keep_alive = false;
        if (route.kind == RouteKind::kGenerate) context_.metrics.CountRefused();
        co_return co_await Send(ErrorReply(room), false);
      }
    }
    stream_.expires_never();
    request.body = std::move(parser.get().body());
    if (route.kind == RouteKind::kInline) {
      const HttpReply reply = route.answer(request, context_);
      co_return co_await Send(reply, request.method == "HEAD");
    }
    const auto job =
        std::make_shared<HttpJob>(std::move(request), std::move(grant), std::move(body_bytes));
    co_return co_await Answer(route, job);
  }

  // The bytes of all bodies together are bounded; each counts from when it arrives.
  asio::awaitable<absl::Status> ReadBody(Parser& parser, Quota::Share& bytes, error_code& error) {
    parser.eager(true);
    absl::Status room;
    while (room.ok() && !error && !parser.is_done()) {
      co_await http::async_read_some(stream_, buffer_, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
      room = bytes.GrowTo(static_cast<std::int64_t>(parser.get().body().size()));
    }
    co_return room;
  }

  // The reply to bytes that are no request, if any is due.
  asio::awaitable<bool> AnswerBadHead(error_code error, const Parser& parser) {
    head_.keep_alive = false;
    head_.request_id = RequestIdFrom("");
    if (error == http::error::body_limit) {
      co_return co_await Send(ErrorReply(413, "content_too_large",
                                         absl::StrFormat("the body is larger than %d bytes",
                                                         context_.config.limits.max_body_bytes)),
                              false);
    }
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      co_return co_await Send(ErrorReply(431, "headers_too_large", "the headers are too large"),
                              false);
    }
    if (error == beast::error::timeout) {
      if (!parser.got_some()) co_return false;
      co_return co_await Send(ErrorReply(408, "request_timeout", "the request came too slowly"),
                              false);
    }
    const bool malformed = error.category() == make_error_code(http::error::bad_method).category();
    if (!malformed || error == http::error::end_of_stream ||
        error == http::error::partial_message) {
      co_return false;
    }
    co_return co_await Send(ErrorReply(400, "bad_http", "not an HTTP/1.1 request"), false);
  }

  asio::awaitable<bool> Answer(const Route& route, std::shared_ptr<HttpJob> job) {
    const WakeTag tag(services_.wakes, [this] { news_.Signal(); });
    const auto self = shared_from_this();
    watching_ = true;
    Watch();
    services_.context.workers.Post([self, job, &route, tag = tag.value] {
      RunHttpJob(route, self->context_, self->services_.wakes, tag, *job);
      asio::post(self->services_.io, [self, job] {
        job->done = true;
        self->news_.Signal();
      });
    });
    while (!job->done) {
      co_await news_.Wait(kIdleTimeout);
      if (gone_) job->abandoned = true;
    }
    const bool again = co_await Deliver(*job);
    job->exchange.reset();
    StopWatching();
    co_return again;
  }

  asio::awaitable<bool> Deliver(HttpJob& job) {
    if (gone_) co_return false;
    if (job.exchange == nullptr) co_return co_await Send(job.reply, false);
    if (job.exchange->streams()) co_return co_await StreamEvents(*job.exchange);
    std::string unused;
    while (!job.exchange->Advance(unused)) {
      co_await news_.Wait(std::chrono::hours(1));
      if (gone_) co_return false;
    }
    co_return co_await Send(job.exchange->Answer(), false);
  }

  asio::awaitable<bool> StreamEvents(CompletionExchange& exchange) {
    const std::chrono::seconds heartbeat{absl::ToInt64Seconds(context_.config.heartbeat)};
    if (closing_ || context_.state.draining()) head_.keep_alive = false;
    if (head_.http_1_0) head_.keep_alive = false;
    std::string bytes = EventStreamHead(head_);
    std::string events;
    bool over = false;
    while (!over) {
      events.clear();
      over = exchange.Advance(events);
      if (!events.empty()) AppendEvents(events, head_, bytes);
      // The end and the last events go in one write, so that the client can reuse the connection.
      if (over && !head_.http_1_0) bytes += "0\r\n\r\n";
      if (!bytes.empty()) {
        const bool sent = co_await WriteAll(bytes);
        if (!sent) co_return false;
        bytes.clear();
      }
      if (over) break;
      const bool signalled = co_await news_.Wait(heartbeat);
      if (gone_) co_return false;
      if (!signalled) AppendEvents(": ping\n\n", head_, bytes);
    }
    if (!head_.keep_alive) co_await LingerClose();
    co_return head_.keep_alive;
  }

  asio::awaitable<bool> Send(const HttpReply& reply, bool head_only) {
    if (closing_ || context_.state.draining()) head_.keep_alive = false;
    std::string bytes = ReplyHead(reply, head_);
    if (!head_only) bytes += reply.body;
    const bool sent = co_await WriteAll(bytes);
    if (!sent) co_return false;
    if (!head_.keep_alive) co_await LingerClose();
    co_return head_.keep_alive;
  }

  asio::awaitable<bool> WriteAll(const std::string& bytes) {
    error_code error;
    stream_.expires_after(kWriteTimeout);
    co_await asio::async_write(stream_, asio::buffer(bytes),
                               asio::redirect_error(asio::use_awaitable, error));
    stream_.expires_never();
    if (error) gone_ = true;
    co_return !error;
  }

  // Bytes that were never read would make the kernel reset the connection, and the client could
  // lose the reply: they are read and dropped for a moment.
  asio::awaitable<void> LingerClose() {
    StopWatching();
    error_code error;
    stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    stream_.expires_after(kLinger);
    std::array<char, 16 << 10> dropped;
    while (!error && !gone_) {
      co_await stream_.async_read_some(asio::buffer(dropped),
                                       asio::redirect_error(asio::use_awaitable, error));
    }
  }

  // Keeps a read armed while a request runs: the only way to see that a client has gone while
  // nothing is written. A client that closes its sending side counts as gone.
  void Watch() {
    stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(),
                                                         epoch = watch_epoch_](error_code error) {
      if (!self->watching_ || epoch != self->watch_epoch_) return;
      self->OnReadable(error);
    });
  }

  void OnReadable(error_code error) {
    if (!error) {
      // A pipelined request; past the limit it stays in the kernel, and only a write notices a
      // client that goes.
      if (buffer_.size() >= kMaxPipelinedBytes) return;
      const auto space = buffer_.prepare(4096);
      const std::size_t count = stream_.socket().read_some(space, error);
      buffer_.commit(count);
      if (!error || error == asio::error::would_block) return Watch();
    }
    gone_ = true;
    news_.Signal();
  }

  void StopWatching() {
    if (!watching_) return;
    watching_ = false;
    ++watch_epoch_;
    error_code ignored;
    stream_.socket().cancel(ignored);
  }

  const ConnectionServices services_;
  ServerContext& context_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  Event news_;
  std::function<void()> closed_;
  HeadOptions head_;
  bool idle_ = true;      // waits for a request
  bool closing_ = false;  // no request after this one
  bool gone_ = false;     // the client has gone, or was cut off
  bool watching_ = false;
  int watch_epoch_ = 0;
};

}  // namespace

std::shared_ptr<HttpConnection> StartHttpConnection(const ConnectionServices& services,
                                                    int native_socket, bool ipv6,
                                                    std::function<void()> closed) {
  tcp::socket socket(services.io);
  error_code error;
  socket.assign(ipv6 ? tcp::v6() : tcp::v4(), native_socket, error);
  auto connection = std::make_shared<Connection>(services, std::move(socket), std::move(closed));
  connection->Start();
  return connection;
}

}  // namespace thresher
