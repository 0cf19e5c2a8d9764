#include "core/status.hpp"

#include <gtest/gtest.h>

#include "kolo/error.h"

namespace kolo {
namespace {

template <typename Exception>
void expect_throws(const Status& status) {
  try {
    throw_if_error(status);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Exception& error) {
    EXPECT_EQ(error.what(), status.message());
  }
}

TEST(Status, EachCodeHasItsException) {
  EXPECT_NO_THROW(throw_if_error(Status::ok()));
  expect_throws<NotInitializedError>(Status::not_initialized("a"));
  expect_throws<InvalidArgumentError>(Status::invalid_argument("b"));
  expect_throws<MismatchError>(Status::mismatch("c"));
  expect_throws<DuplicateNameError>(Status::duplicate_name("d"));
  expect_throws<PeerLostError>(Status::peer_lost("e"));
  expect_throws<TimeoutError>(Status::timeout("f"));
  expect_throws<DataError>(Status::data("g"));
  expect_throws<InternalError>(Status::internal("h"));
}

}  // namespace
}  // namespace kolo
