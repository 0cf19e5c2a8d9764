// Tests which tensors `kolo checkpoint convert` reads from a checkpoint.
#include "tools/checkpoint/contents.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/file_system.hpp"
#include "checkpoint/metadata.hpp"
#include "checkpoint/pieces.hpp"
#include "checkpoint/writing.hpp"
#include "temporary_folder.hpp"

namespace kolo::tools {
namespace {

using testing::ElementsAre;

// Writes a checkpoint whose tensors all have the byte 7.
void write(const std::string& path, checkpoint::Table table) {
  checkpoint::FileSystem& files = checkpoint::system_files();
  const checkpoint::Metadata metadata =
      checkpoint::make_metadata(table, checkpoint::count_pieces(table));
  const checkpoint::Pieces pieces(table);
  const std::vector<unsigned char> sevens(64, 7);
  std::vector<checkpoint::PieceData> data;
  for (const std::size_t tensor : pieces.order())
    data.push_back({pieces.piece(tensor, 0), sevens.data()});
  checkpoint::begin_file(files, path, metadata.file_size);
  checkpoint::complete_file(files, path, metadata, checkpoint::write_pieces(files, path, data),
                            pieces.count());
}

TEST(Contents, ATensorOfTwoNamesHasBoth) {
  const testing_support::TemporaryFolder folder;
  const std::string path = folder.path() + "/tied.h5";
  checkpoint::Table table;
  table.tensors = {{"model/in.weight", ElementType::kUint8, {2}},
                   {"other/weight", ElementType::kUint8, {3}}};
  table.values = {{"model/out.weight", std::string("model/in.weight")},
                  {"model/note", std::string("other/weight")},  // another component's
                  {"model/text", std::string("nothing")}};
  write(path, table);
  const Contents contents = read_checkpoint(path, "model");
  std::vector<std::string> names;
  for (const NamedTensor& tensor : contents.tensors) {
    names.push_back(tensor.name);
    EXPECT_THAT(tensor.bytes, ElementsAre(7, 7));
  }
  EXPECT_THAT(names, ElementsAre("in.weight", "out.weight"));
  EXPECT_THAT(contents.left_out, ElementsAre("model/note", "model/text"));
}

}  // namespace
}  // namespace kolo::tools
