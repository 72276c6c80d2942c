// The compiled parts of Asio and Beast, once for the whole server.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
#include <utility>  // before asio, whose headers use std::exchange without including it
