// Early returns on a status, so that the interpreter reads as straight-line code.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define JINJA_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                        \
    if (absl::Status status_macro_ = (expression); !status_macro_.ok()) return status_macro_; \
  } while (false)

#define JINJA_CONCAT_INNER_(a, b) a##b
#define JINJA_CONCAT_(a, b) JINJA_CONCAT_INNER_(a, b)
#define JINJA_ASSIGN_OR_RETURN(target, expression) \
  JINJA_ASSIGN_OR_RETURN_(JINJA_CONCAT_(status_or_, __LINE__), target, expression)
#define JINJA_ASSIGN_OR_RETURN_(name, target, expression) \
  auto name = (expression);                               \
  if (!name.ok()) return std::move(name).status();        \
  target = *std::move(name)
