#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/kolo.h>

#include <string>

namespace kolo::testing_support {

// A test with kolo running. Each test starts and ends it anew.
class WithKolo : public testing::Test {
 protected:
  void SetUp() override { kolo::init(); }
  void TearDown() override { kolo::shutdown(); }
};

// Runs the action and gives the message of the exception of this type that it must throw.
template <typename Exception, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw another exception: " << error.what();
    return {};
  }
  ADD_FAILURE() << "threw nothing";
  return {};
}

}  // namespace kolo::testing_support
