#include "core/status.hpp"

#include "kolo/error.h"

namespace kolo {

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk)
    failure_ = std::make_shared<const Failure>(Failure{code, std::move(message)});
}

const std::string& Status::message() const {
  static const std::string nothing;
  return is_ok() ? nothing : failure_->message;
}

void throw_if_error(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return;
    case StatusCode::kNotInitialized:
      throw NotInitializedError(status.message());
    case StatusCode::kInvalidArgument:
      throw InvalidArgumentError(status.message());
    case StatusCode::kMismatch:
      throw MismatchError(status.message());
    case StatusCode::kDuplicateName:
      throw DuplicateNameError(status.message());
    case StatusCode::kPeerLost:
      throw PeerLostError(status.message());
    case StatusCode::kTimeout:
      throw TimeoutError(status.message());
    case StatusCode::kData:
      throw DataError(status.message());
    case StatusCode::kFile:
      throw FileError(status.message());
    case StatusCode::kInternal:
      break;
  }
  throw InternalError(status.message());
}

}  // namespace kolo
