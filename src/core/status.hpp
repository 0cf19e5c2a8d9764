// Status: a result or failure inside kolo. At the API a failure becomes an exception
// (throw_if_error).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace kolo {

enum class StatusCode : std::uint8_t {
  kOk = 0,
  kNotInitialized = 1,
  kInvalidArgument = 2,
  kMismatch = 3,
  kDuplicateName = 4,
  kPeerLost = 5,
  kTimeout = 6,
  kData = 7,
  kFile = 8,
  kInternal = 9,  // the last one
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);

  static Status ok() { return {}; }
  static Status not_initialized(std::string m) {
    return {StatusCode::kNotInitialized, std::move(m)};
  }
  static Status invalid_argument(std::string m) {
    return {StatusCode::kInvalidArgument, std::move(m)};
  }
  static Status mismatch(std::string m) { return {StatusCode::kMismatch, std::move(m)}; }
  static Status duplicate_name(std::string m) { return {StatusCode::kDuplicateName, std::move(m)}; }
  static Status peer_lost(std::string m) { return {StatusCode::kPeerLost, std::move(m)}; }
  static Status timeout(std::string m) { return {StatusCode::kTimeout, std::move(m)}; }
  static Status data(std::string m) { return {StatusCode::kData, std::move(m)}; }
  static Status file(std::string m) { return {StatusCode::kFile, std::move(m)}; }
  static Status internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

  bool is_ok() const { return failure_ == nullptr; }
  StatusCode code() const { return is_ok() ? StatusCode::kOk : failure_->code; }
  const std::string& message() const;

 private:
  struct Failure {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Failure> failure_;  // null: ok, without an allocation
};

// Throws the exception of kolo/error.h that belongs to the status; returns if it is ok.
void throw_if_error(const Status& status);

}  // namespace kolo
