#include "server/http/http_frontend.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>
#include <utility>  // before asio, whose headers use std::exchange without including it

#include "absl/strings/str_cat.h"
#include "server/http/http_connection.h"
#include "server/http/http_head.h"

namespace thresher {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// The wait before another try when the process has no descriptors left.
constexpr std::chrono::milliseconds kAcceptRetry{50};
// How long aborted connections may take to end.
constexpr absl::Duration kAbortTime = absl::Seconds(10);

}  // namespace

struct HttpFrontend::State {
  explicit State(ServerContext& server_context)
      : context(server_context), acceptor(io), wakes(io) {}

  absl::Status Listen() {
    error_code error;
    const asio::ip::address address = asio::ip::make_address(context.config.host, error);
    const std::string where = absl::StrCat(context.config.host, ":", context.config.http_port);
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat("--host is '", context.config.host, "'; it must be an IP address"));
    }
    const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(context.config.http_port));
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", where, ": ", error.message()));
    }
    port = acceptor.local_endpoint().port();
    return absl::OkStatus();
  }

  void Run() {
    while (true) {
      try {
        io.run();
        return;
      } catch (const std::bad_alloc&) {
        std::clog << "level=error event=http_io error=\"out of memory\"\n";
      }
    }
  }

  asio::awaitable<void> Accept() {
    while (!stopping) {
      tcp::socket socket(io);
      error_code error;
      co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
      if (stopping) break;
      if (error) {
        asio::steady_timer timer(io, kAcceptRetry);
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      Admit(std::move(socket));
    }
  }

  void Admit(tcp::socket socket) {
    if (static_cast<int>(connections.size()) >= context.config.max_connections) {
      // One try to say why; a client that cannot take a few hundred bytes learns it from the end.
      HttpReply reply = ErrorReply(absl::UnavailableError("too many connections"));
      HeadOptions head;
      head.keep_alive = false;
      head.request_id = RequestIdFrom("");
      const std::string bytes = ReplyHead(reply, head) + reply.body;
      error_code ignored;
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(bytes), ignored);
      return;
    }
    // A socket that its client has reset already may refuse either.
    error_code error;
    const bool ipv6 = socket.local_endpoint(error).protocol() == tcp::v6();
    const int native = error ? -1 : socket.release(error);
    if (error) return;
    const std::int64_t id = next_id++;
    connections[id] =
        StartHttpConnection({io, context, wakes}, native, ipv6, [this, id] { Closed(id); });
  }

  void Closed(std::int64_t id) {
    connections.erase(id);
    if (!stopping || !connections.empty()) return;
    const std::lock_guard<std::mutex> lock(mutex);
    all_closed = true;
    closed.notify_all();
  }

  void AwaitClosed(absl::Duration limit) {
    std::unique_lock<std::mutex> lock(mutex);
    closed.wait_for(lock, absl::ToChronoNanoseconds(limit), [this] { return all_closed; });
  }

  ServerContext& context;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  tcp::acceptor acceptor;
  WakeRegistry wakes;
  int port = 0;
  std::thread thread;
  // I/O thread only.
  bool stopping = false;
  std::int64_t next_id = 0;
  std::unordered_map<std::int64_t, std::shared_ptr<HttpConnection>> connections;

  std::mutex mutex;
  std::condition_variable closed;
  bool all_closed = false;  // under mutex
};

HttpFrontend::HttpFrontend(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<HttpFrontend>> HttpFrontend::Start(ServerContext& context) {
  auto state = std::make_unique<State>(context);
  if (absl::Status status = state->Listen(); !status.ok()) return status;
  State& s = *state;
  asio::co_spawn(
      s.io, [&s] { return s.Accept(); }, asio::detached);
  s.thread = std::thread([&s] { s.Run(); });
  return std::unique_ptr<HttpFrontend>(new HttpFrontend(std::move(state)));
}

HttpFrontend::~HttpFrontend() { Shutdown(absl::ZeroDuration()); }

int HttpFrontend::port() const { return state_->port; }

void HttpFrontend::Shutdown(absl::Duration grace) {
  State& s = *state_;
  if (!s.thread.joinable()) return;
  asio::post(s.io, [&s] {
    s.stopping = true;
    error_code ignored;
    s.acceptor.close(ignored);
    for (auto& [id, connection] : s.connections) connection->Close();
    if (!s.connections.empty()) return;
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.all_closed = true;
    s.closed.notify_all();
  });
  s.AwaitClosed(grace);
  asio::post(s.io, [&s] {
    for (auto& [id, connection] : s.connections) connection->Abort();
  });
  // A request that a worker is still tokenising ends with that.
  s.AwaitClosed(kAbortTime);
  s.io.stop();
  s.thread.join();
}

}  // namespace thresher
