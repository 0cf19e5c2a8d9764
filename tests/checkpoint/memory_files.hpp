// A file system in memory that knows what is on the disk and what is not: a crash loses some of
// what was not synced. What a process sees is the latest; what is left after a crash is what was
// synced, and of the rest whatever chance lets through, page by page and name by name.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/file_system.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint::test {

// What a test's file system throws where the process shall end.
struct Killed {};

class MemoryFiles : public FileSystem {
 public:
  using Bytes = std::vector<unsigned char>;
  static constexpr std::size_t kPage = 4096;

  // Called before each operation that changes something; may throw Killed or FileError.
  std::function<void(const std::string& what)> before = [](const std::string&) {};

  std::uint64_t bytes_read() const { return bytes_read_; }
  Bytes content(const std::string& path) const { return find(path)->now; }
  void set_content(const std::string& path, Bytes bytes) {
    auto node = std::make_shared<Node>();
    node->now = bytes;
    node->on_disk = std::move(bytes);
    names_[path] = names_on_disk_[path] = node;
  }
  void forget(const std::string& path) { names_.erase(path); }

  // The power goes off, and on.
  template <typename Random>
  void crash(Random& random) {
    const auto chance = [&] { return random() % 2 == 0; };
    std::set<std::string> all;
    for (const auto& [name, node] : names_) all.insert(name);
    for (const auto& [name, node] : names_on_disk_) all.insert(name);
    std::map<std::string, std::shared_ptr<Node>> left;
    for (const std::string& name : all) {
      const auto now = names_.find(name);
      const auto before_it = names_on_disk_.find(name);
      const bool has_changed = now == names_.end() || before_it == names_on_disk_.end() ||
                               now->second != before_it->second;
      if (!has_changed || chance()) {
        if (now != names_.end()) left.insert(*now);
      } else if (before_it != names_on_disk_.end()) {
        left.insert(*before_it);
      }
    }
    // A rename never leaves a file without any name: the old one or the new one lasts.
    for (const auto& named : names_) {
      const auto is_same = [&](const auto& one) { return one.second == named.second; };
      const bool had_name = std::any_of(names_on_disk_.begin(), names_on_disk_.end(), is_same);
      const bool has_name = std::any_of(left.begin(), left.end(), is_same);
      if (had_name && !has_name) left.insert(named);
    }
    for (auto& [name, node] : left) {
      const bool is_older = chance();
      Bytes bytes = is_older ? node->on_disk : node->now;
      const Bytes& other = is_older ? node->now : node->on_disk;
      for (std::size_t at = 0; at < std::min(bytes.size(), other.size()); at += kPage)
        if (chance())
          std::memcpy(bytes.data() + at, other.data() + at,
                      std::min({kPage, bytes.size() - at, other.size() - at}));
      node->now = node->on_disk = bytes;
    }
    names_ = names_on_disk_ = left;
  }

  std::unique_ptr<File> create(const std::string& path) override {
    before("create " + path);
    const auto found = names_.find(path);
    const auto node = found == names_.end() ? std::make_shared<Node>() : found->second;
    node->now.clear();
    names_[path] = node;
    return std::make_unique<Handle>(*this, node, path);
  }
  std::unique_ptr<File> open_to_write(const std::string& path) override {
    return std::make_unique<Handle>(*this, find(path), path);
  }
  std::unique_ptr<File> open_to_read(const std::string& path) override {
    return std::make_unique<Handle>(*this, find(path), path);
  }
  void rename(const std::string& from, const std::string& to) override {
    before("rename " + from);
    const auto node = find(from);
    names_.erase(from);
    names_[to] = node;
  }
  void remove(const std::string& path) override {
    before("remove " + path);
    find(path);
    names_.erase(path);
  }
  void sync_folder(const std::string& path) override {
    before("sync_folder " + path);
    const auto is_in = [&](const std::string& name) { return folder_of(name) == path; };
    std::erase_if(names_on_disk_, [&](const auto& one) { return is_in(one.first); });
    for (const auto& one : names_)
      if (is_in(one.first)) names_on_disk_.insert(one);
  }
  bool has_folder(const std::string& path) override { return folders_.count(path) > 0; }
  void make_folder(const std::string& path) override { folders_.insert(path); }
  std::vector<std::string> list(const std::string& folder) override {
    if (!has_folder(folder)) throw FileError("cannot list " + folder);
    std::vector<std::string> names;
    for (const auto& [name, node] : names_)
      if (folder_of(name) == folder) names.push_back(name.substr(folder.size() + 1));
    return names;
  }

 private:
  struct Node {
    Bytes now, on_disk;
  };

  class Handle : public File {
   public:
    Handle(MemoryFiles& files, std::shared_ptr<Node> node, std::string path)
        : files_(files), node_(std::move(node)), path_(std::move(path)) {}
    void write(std::uint64_t offset, const void* data, std::size_t size) override {
      files_.before("write " + path_);
      written_.emplace_back(offset, size);
      node_->now.resize(std::max<std::size_t>(node_->now.size(), offset + size));
      if (size > 0) std::memcpy(node_->now.data() + offset, data, size);
    }
    std::size_t read(std::uint64_t offset, void* data, std::size_t size) override {
      if (offset >= node_->now.size()) return 0;
      const std::size_t got = std::min<std::size_t>(size, node_->now.size() - offset);
      if (got > 0) std::memcpy(data, node_->now.data() + offset, got);
      files_.bytes_read_ += got;
      return got;
    }
    std::uint64_t size() override { return node_->now.size(); }
    void resize(std::uint64_t size) override {
      files_.before("resize " + path_);
      node_->now.resize(size);
    }
    void sync() override {
      files_.before("sync " + path_);
      node_->on_disk.resize(node_->now.size());
      for (const auto& [offset, size] : written_)
        if (size > 0) std::memcpy(&node_->on_disk[offset], &node_->now[offset], size);
      written_.clear();
    }
    void close() override { files_.before("close " + path_); }

   private:
    MemoryFiles& files_;
    const std::shared_ptr<Node> node_;
    const std::string path_;
    std::vector<std::pair<std::size_t, std::size_t>> written_;  // through this file, since its sync
  };

  std::shared_ptr<Node> find(const std::string& path) const {
    const auto found = names_.find(path);
    if (found == names_.end()) throw FileError("cannot open " + path + ": it is not there");
    return found->second;
  }

  std::map<std::string, std::shared_ptr<Node>> names_, names_on_disk_;
  std::set<std::string> folders_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace kolo::checkpoint::test
