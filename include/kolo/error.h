// Exceptions that kolo throws. docs/errors.md lists them with causes and remedies.
#pragma once

#include <stdexcept>
#include <string>

namespace kolo {

// Base of everything that kolo throws. what() says what happened, where, on which ranks, and what
// to do about it.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A call before kolo::init() or after kolo::shutdown(), or work that a shutdown ended.
class NotInitializedError : public Error {
 public:
  using Error::Error;
};

// An argument that is wrong on this rank. Other ranks that would wait for this one in the same
// operation get a MismatchError with the reason.
class InvalidArgumentError : public Error {
 public:
  using Error::Error;
};

// Ranks disagree about a tensor: its operation, dtype, shape, ... Only that tensor fails, on every
// rank.
class MismatchError : public Error {
 public:
  using Error::Error;
};

// An operation was submitted while one of the same kind and name was still in flight on this rank.
class DuplicateNameError : public Error {
 public:
  using Error::Error;
};

// A rank died, left early or does not answer any more. No further operation can succeed: end the
// process, and restart the job.
class PeerLostError : public Error {
 public:
  using Error::Error;
};

// A wait took longer than its timeout. The operation itself goes on; waiting again is allowed.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

// A file that is missing, damaged or not of the expected format. Names the file.
class DataError : public Error {
 public:
  using Error::Error;
};

// A file or folder cannot be made, read or written: it is missing, the disk is full, permission is
// lacking. Names it, and the system's reason.
class FileError : public Error {
 public:
  using Error::Error;
};

// The MPI library, the system or kolo itself failed.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace kolo
