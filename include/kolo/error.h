// Exceptions that kolo throws. docs/errors.md lists them with causes and remedies.
#pragma once

#include <stdexcept>
#include <string>

namespace kolo {

// Base of kolo's own exceptions. what() says what happened, where, on which ranks, and what to do
// about it. LibTorch's exceptions (c10::Error), std::bad_alloc and exceptions of the program's own
// functions pass through kolo unchanged unless a function says otherwise.
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

// A rank has died, left early, or no longer answers. If it has not left by shutdown(), no further
// operation can succeed: end the process, and restart the job.
class PeerLostError : public Error {
 public:
  using Error::Error;
};

// A wait took longer than its timeout. The operation continues, and may be waited for again.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

// Data cannot be used: a file is missing, damaged or of another format (the message names it), a
// sample or batch cannot be loaded, or an object from another rank has another type.
class DataError : public Error {
 public:
  using Error::Error;
};

// A file or folder cannot be created, read or written: it does not exist, the disk is full, or
// permission is denied. The message names it and gives the reason of the system.
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
