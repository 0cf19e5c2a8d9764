// Python's pickles, as torch.save writes them, and what is taken from them. The jobs' test converts
// files that Python wrote.
#include "tools/checkpoint/state_dict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kolo/error.h"
#include "tools/checkpoint/pickle_writer.hpp"

namespace kolo::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::string_literals;
using Bytes = std::vector<unsigned char>;

// --- pieces of pickles, as Python's pickletools.dis() shows them ---

std::string text(const std::string& value) {
  return std::string("X") + static_cast<char>(value.size()) + std::string(3, '\0') + value;
}
std::string number(int value) {
  return std::string("K") + static_cast<char>(value);
}
std::string tuple(const std::string& items) {
  return "(" + items + "t";
}
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string call(const std::string& what, const std::string& arguments) {
  return what + tuple(arguments) + "R";
}
std::string storage(const std::string& type, const std::string& key) {
  return tuple(text("storage") + global("torch", type) + text(key) + text("cpu") + number(0)) + "Q";
}
const std::string kNoHooks = global("collections", "OrderedDict") + ")R";
std::string tensor(const std::string& storage, int offset, const std::string& shape,
                   const std::string& strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              storage + number(offset) + tuple(shape) + tuple(strides) + "\x89" + kNoHooks);
}
std::string whole(const std::string& program) {
  return "\x80\x02" + program + ".";
}

// Storage "0" has 24 bytes from 0 on.
Bytes read_storage(const std::string& key) {
  if (key != "0") throw DataError("no storage " + key);
  Bytes bytes(24);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  return bytes;
}

Contents taken(const std::string& program, std::uint64_t most_bytes = 1000) {
  const std::string bytes = whole(program);
  const Pickle pickle(bytes);
  return contents_of(pickle, read_storage, most_bytes);
}

std::string error_of(const std::string& program, std::uint64_t most_bytes = 1000) {
  try {
    taken(program, most_bytes);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

const std::string kMatrix =
    tensor(storage("ByteStorage", "0"), 0, number(4) + number(6), number(6) + number(1));

// OrderedDict([("w", tensor)]) with the attribute _metadata, which nn.Module.state_dict() gives.
TEST(StateDict, OrderedDictWithMetadata) {
  const std::string ordered = global("collections", "OrderedDict") + "q\0"s + ")Rq\1";
  const std::string metadata = "}" + text("_metadata") + "h\0"s + ")R" + text("") + "}" +
                               text("version") + number(1) + "sssb";
  const Contents all = taken(ordered + "(" + text("fc.weight") + kMatrix + "u" + metadata);
  ASSERT_EQ(all.tensors.size(), 1U);
  EXPECT_EQ(all.tensors[0].name, "fc.weight");
  EXPECT_EQ(all.tensors[0].type, ElementType::kUint8);
  EXPECT_THAT(all.tensors[0].shape, ElementsAre(4, 6));
  EXPECT_EQ(all.tensors[0].bytes, read_storage("0"));
  EXPECT_THAT(all.notes, IsEmpty());
  EXPECT_THAT(all.left_out, IsEmpty());
}

// --- what is written ---

Contents there_and_back(const Contents& contents) {
  const std::string bytes = pickle_of(contents);
  const Pickle pickle(bytes);
  return contents_of(
      pickle, [&](const std::string& key) { return contents.tensors.at(std::stoul(key)).bytes; },
      1 << 20);
}

TEST(PickleWriter, AnyNameIsReadAsItWas) {
  Contents contents;
  for (const std::string& name : {"w"s, "layer.in.weight"s, "None"s, "a"s, "a.b"s, ".a"s, "a."s,
                                  ""s, "."s, "tensor"s, "q'\""s, "back\\slash"s, "line\nfeed"s,
                                  "nul\0"s, "\303\274"s, "7"s, std::string(1000, 'x')})
    contents.tensors.push_back({name, ElementType::kUint8, {1}, {7}});
  const Contents back = there_and_back(contents);
  ASSERT_EQ(back.tensors.size(), contents.tensors.size());
  for (std::size_t i = 0; i < back.tensors.size(); ++i)
    EXPECT_EQ(back.tensors[i].name, contents.tensors[i].name);
}

TEST(PickleWriter, AnyTypeAndShape) {
  Contents contents;
  for (int type = 0; type < kElementTypeCount; ++type) {
    const auto element = static_cast<ElementType>(type);
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{},
                                                   {3},
                                                   {2, 300},
                                                   {1, 2, 1, 3},
                                                   {0},
                                                   {4, 0, std::int64_t{1} << 40}}) {
      Bytes bytes(*elements_of(shape) * size_of(element));
      std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(type));
      contents.tensors.push_back(
          {std::to_string(contents.tensors.size()), element, shape, std::move(bytes)});
    }
  }
  const Contents back = there_and_back(contents);
  ASSERT_EQ(back.tensors.size(), contents.tensors.size());
  for (std::size_t i = 0; i < back.tensors.size(); ++i) {
    EXPECT_EQ(back.tensors[i].type, contents.tensors[i].type);
    EXPECT_EQ(back.tensors[i].shape, contents.tensors[i].shape);
    EXPECT_EQ(back.tensors[i].bytes, contents.tensors[i].bytes);
  }
}

TEST(PickleWriter, NamesThatAreNotUtf8AreRefused) {
  Contents contents;
  contents.tensors = {{"a\xff", ElementType::kUint8, {1}, {7}}};
  try {
    pickle_of(contents);
    ADD_FAILURE() << "was written";
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"a\\ufffd\" is not UTF-8, which a state_dict needs"));
  }
}

// What is under the key "" is not the root.
TEST(StateDict, EmptyKeys) {
  const Contents all = taken("}(" + text("") + "}(" + text("a") + kMatrix + text("") + kMatrix +
                             "u" + text("a") + number(3) + "u");
  ASSERT_EQ(all.tensors.size(), 2U);
  EXPECT_EQ(all.tensors[0].name, ".a");
  EXPECT_EQ(all.tensors[1].name, ".");
  EXPECT_EQ(all.notes, (std::map<std::string, std::string>{{"a", "3"}}));
  EXPECT_EQ(taken("}" + text("") + kMatrix + "s").tensors.at(0).name, "");
  EXPECT_EQ(taken(kMatrix).tensors.at(0).name, "tensor");
}

TEST(StateDict, ViewsOfAnyStrides) {
  const auto bytes = [](const std::string& view) { return taken(view).tensors.at(0).bytes; };
  const std::string from = storage("ByteStorage", "0");
  EXPECT_THAT(bytes(tensor(from, 1, number(2) + number(3), number(1) + number(6))),
              ElementsAre(1, 7, 13, 2, 8, 14));
  EXPECT_THAT(bytes(tensor(from, 23, number(3), number(0))), ElementsAre(23, 23, 23));
  EXPECT_THAT(bytes(tensor(from, 5, "", "")), ElementsAre(5));
  EXPECT_THAT(bytes(tensor(storage("ShortStorage", "0"), 2, number(2), number(3))),
              ElementsAre(4, 5, 10, 11));
  EXPECT_THAT(bytes(tensor(storage("ByteStorage", "none"), 9, number(0), number(1))), IsEmpty());
}

TEST(StateDict, WhatAViewMayNot) {
  const std::string from = storage("FloatStorage", "0");  // six elements
  EXPECT_EQ(error_of(tensor(from, 0, number(6), number(1))), "no error");
  for (const std::string& beyond :
       {tensor(from, 1, number(6), number(1)), tensor(from, 0, number(2), number(6)),
        tensor(from, 6, "", ""),
        tensor(from, 0, number(2) + number(2),
               number(1) + "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s)})
    EXPECT_THAT(error_of(beyond), HasSubstr("goes beyond its storage"));
  const std::string large = "J\xff\xff\xff\x7f";
  EXPECT_THAT(error_of(tensor(from, 0, large, number(0))), HasSubstr("larger than what the file"));
  EXPECT_THAT(error_of(tensor(from, 0, large + large + large, number(0) + number(0) + number(0))),
              HasSubstr("larger than what the file"));
  EXPECT_THAT(error_of(tensor(from, 0, number(6), number(1)), 23), HasSubstr("larger than what"));
  EXPECT_THAT(error_of(tensor(from, 0, number(6), "")), HasSubstr("larger than what the file"));
  EXPECT_THAT(error_of(tensor(from, 0, "J\xff\xff\xff\xff", number(1))), HasSubstr("not numbers"));
  EXPECT_THAT(error_of(tensor(storage("ByteStorage", "1"), 0, number(1), number(1))),
              HasSubstr("no storage 1"));
  EXPECT_THAT(error_of(tensor(storage("QInt8Storage", "0"), 0, number(1), number(1))),
              HasSubstr("made of torch.QInt8Storage, which checkpoints do not have"));
  EXPECT_THAT(error_of(tensor(text("storage"), 0, number(1), number(1))),
              HasSubstr("'tensor' is a tensor without a storage"));
}

TEST(StateDict, ValuesAndWrappers) {
  const std::string parameter = call(global("torch._utils", "_rebuild_parameter_with_state"),
                                     kMatrix + "\x88" + kNoHooks + "}");
  const std::string subclass =
      call(global("torch._tensor", "_rebuild_from_type_v2"),
           global("torch._utils", "_rebuild_tensor_v2") + global("mine", "Tensor") +
               tuple(storage("IntStorage", "0") + number(0) + tuple(number(6)) + tuple(number(1)) +
                     "\x89" + kNoHooks) +
               "}");
  const std::string by_bytes =
      call(global("torch._utils", "_rebuild_tensor_v3"),
           storage("storage.UntypedStorage", "0") + number(0) + tuple(number(12)) +
               tuple(number(1)) + "\x89" + kNoHooks + global("torch", "uint16") + "N");
  const Contents all = taken(
      "}(" + text("p") + parameter + text("s") + subclass + text("b") + by_bytes + text("epoch") +
      number(3) + text("lr") + "G\x3f\xb9\x99\x99\x99\x99\x99\x9a" + text("best") + "\x88" +
      text("none") + "N" + number(7) + "](" + text("x") + "\x8a\x01\xff" + "e" + "u");
  ASSERT_EQ(all.tensors.size(), 3U);
  EXPECT_EQ(all.tensors[0].name, "p");
  EXPECT_EQ(all.tensors[1].type, ElementType::kInt32);
  EXPECT_EQ(all.tensors[2].type, ElementType::kUint16);
  EXPECT_EQ(all.notes, (std::map<std::string, std::string>{{"epoch", "3"},
                                                           {"lr", "0.10000000000000001"},
                                                           {"best", "true"},
                                                           {"7.0", "x"},
                                                           {"7.1", "-1"}}));
}

// As LibTorch's torch::save and torch.jit.save write a module, with a submodule that has no
// tensors.
TEST(StateDict, ModulesOfTorchScript) {
  const auto object = [](const std::string& state) {
    return global("__torch__", "Module") + ")\x81" + state + "b";
  };
  const Contents all =
      taken(object("}(" + text("weight") + kMatrix + text("training") + "\x88" + text("inner") +
                   object("}(" + text("bias") + kMatrix + text("drop") + object("}") + "u") +
                   text("made") + object(tuple(kMatrix)) + "u"));
  ASSERT_EQ(all.tensors.size(), 2U);
  EXPECT_EQ(all.tensors[0].name, "weight");
  EXPECT_EQ(all.tensors[1].name, "inner.bias");
  EXPECT_EQ(all.notes, (std::map<std::string, std::string>{{"training", "true"},
                                                           {kModulesNote, "inner.drop\n"}}));
  EXPECT_THAT(all.left_out, ElementsAre("made"));  // by code, of a tuple
}

TEST(StateDict, ManyModulesWithoutTensors) {
  std::string program = "}(";
  for (int i = 0; i < 20000; ++i)
    program += text("a_module_" + std::to_string(i)) + global("__torch__", "Relu") + ")\x81}b";
  const Contents all = taken(program + "u");
  EXPECT_EQ(std::count(all.notes.at(kModulesNote).begin(), all.notes.at(kModulesNote).end(), '\n'),
            20000);
}

// As many objects as there are bytes may have the same attributes.
TEST(StateDict, AttributesAreShared) {
  std::string program = "}q\0("s;
  for (int i = 0; i < 20000; ++i) program += text(std::to_string(i)) + "N";
  program += "u";
  program += "](";
  for (int i = 0; i < 20000; ++i) program += global("a", "B") + ")\x81h\0b"s;
  program += "e\x86";
  EXPECT_EQ(taken(program).left_out.size(), 20000U);
}

TEST(StateDict, ObjectsAreLeftOutAndNeverCalled) {
  const std::string evil = call(global("os", "system"), text("touch /tmp/kolo-was-here"));
  const std::string object =
      global("argparse", "Namespace") + ")\x81}" + text("lr") + number(1) + "sb";
  const std::string large = "\x8a\x09" + std::string(9, '\1');
  const Contents all = taken("}(" + text("evil") + evil + text("args") + object + text("large") +
                             large + tuple("") + "N" + text("w") + kMatrix + "u");
  EXPECT_EQ(all.tensors.size(), 1U);
  EXPECT_THAT(all.left_out, ElementsAre("evil", "args", "large", "(a key that is not a text)"));
}

// A view whose values are not what its storage holds.
TEST(StateDict, ConjugatedAndNegatedViewsAreRefused) {
  const auto view = [](const std::string& metadata) {
    return call(global("torch._utils", "_rebuild_tensor_v2"),
                storage("ComplexFloatStorage", "0") + number(0) + tuple(number(3)) +
                    tuple(number(1)) + "\x89" + kNoHooks + metadata);
  };
  const std::string no = "\x89", yes = "\x88";
  EXPECT_EQ(error_of(view("}(" + text("conj") + no + text("neg") + no + "u")), "no error");
  EXPECT_THAT(error_of(view("}(" + text("conj") + yes + text("neg") + no + "u")),
              HasSubstr("'tensor' is a conjugated or negated view"));
  EXPECT_THAT(error_of(view("}(" + text("conj") + no + text("neg") + yes + "u")),
              HasSubstr("'tensor' is a conjugated or negated view"));
}

TEST(StateDict, LongListsOfNumbersAreLeftOut) {
  std::string numbers = "](";
  for (int i = 0; i < 300; ++i) numbers += number(i % 100);
  const Contents all = taken("}(" + text("losses") + numbers + kMatrix + "e" + text("short") +
                             "](" + number(1) + "eu");
  EXPECT_THAT(all.left_out, ElementsAre("losses"));
  ASSERT_EQ(all.tensors.size(), 1U);
  EXPECT_EQ(all.tensors[0].name, "losses.300");
  EXPECT_EQ(all.notes, (std::map<std::string, std::string>{{"short.0", "1"}}));
}

// A few bytes of a pickle may stand for a text again and again.
TEST(StateDict, NotesAreNotMoreThanCanBeMeant) {
  const std::string large = "X" + std::string("\0\0\x10\0"s) + std::string(1 << 20, 'x') + "q\1";
  std::string program = "}(" + text("0") + large;
  for (int i = 1; i < 100; ++i) program += text(std::to_string(i)) + "h\1";
  EXPECT_THAT(error_of(program + "u"), HasSubstr("too many texts and numbers"));
}

TEST(StateDict, EndlessNamesEnd) {
  const std::string contains_itself = "}q\1" + text("a") + "h\1s";
  EXPECT_THAT(error_of(contains_itself), HasSubstr("nested too deeply"));
  std::string doubled = "}q\0"s;
  for (char level = 1; level < 40; ++level)
    doubled += "}q" + std::string(1, level) + "(" + text("a") + "h" + std::string(1, level - 1) +
               text("b") + "h" + std::string(1, level - 1) + "u";
  EXPECT_THAT(error_of(doubled), HasSubstr("too many values"));
  const std::string key = "X" + std::string("\xd0\x07\0\0"s) + std::string(2000, 'k');
  EXPECT_THAT(error_of("}" + key + number(1) + "s"), HasSubstr("too long a name"));
  const std::string itself = global("torch._tensor", "_rebuild_from_type_v2") + "]q\1" +
                             global("torch._tensor", "_rebuild_from_type_v2") + "N" + "h\1" +
                             "\x87" + "R";
  EXPECT_EQ(taken(itself).left_out.size(), 1U);
  EXPECT_THAT(error_of("}(" + text("a.b") + kMatrix + text("a") + "}" + text("b") + kMatrix + "su"),
              HasSubstr("'a.b' occurs twice"));
}

TEST(StateDict, PicklesThatAreNone) {
  const auto error = [](const std::string& bytes) -> std::string {
    try {
      Pickle{bytes};
    } catch (const DataError& wrong) {
      return wrong.what();
    }
    return "no error";
  };
  EXPECT_THAT(error("\x80\x04N."), HasSubstr("does not begin as protocol 2"));
  EXPECT_THAT(error(whole("")), HasSubstr("takes from an empty stack"));
  EXPECT_THAT(error(whole("(N")), "no error");
  EXPECT_THAT(error(whole("N(")), HasSubstr("takes from an empty stack"));
  EXPECT_THAT(error(whole("N(b")), HasSubstr("takes from an empty stack"));
  EXPECT_THAT(error(whole("NNt")), HasSubstr("has no mark"));
  EXPECT_THAT(error(whole("}(Nu")), HasSubstr("has a key without a value"));
  EXPECT_THAT(error(whole("h\1")), HasSubstr("recalls what it has not remembered"));
  EXPECT_THAT(error(whole("NNR")), HasSubstr("without a tuple of arguments"));
  EXPECT_THAT(error(whole("X\xff\xff\xff\xffN")), HasSubstr("ends too early"));
  EXPECT_THAT(error(whole("cos")), HasSubstr("ends within a name"));
  EXPECT_THAT(error(whole("i")), HasSubstr("the operation 105, which is not known"));
  // Deep, but never followed.
  EXPECT_EQ(error(whole("N" + std::string(1'000'000, '\x85'))), "no error");
}

}  // namespace
}  // namespace kolo::tools
