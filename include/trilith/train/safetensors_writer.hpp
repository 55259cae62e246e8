// Writes a safetensors file so that, whatever fails, the path holds either the old file or all of the new.
//
//   SafetensorsWriter writer("model.safetensors", {{"wte.weight", {256, 64}}, …}, {{"format", "pt"}});
//   fill(writer.tensor("wte.weight"));   // by any thread, in any order
//   writer.commit();
//
// The data goes into a file beside the target, named after it with ".partial-" and numbers behind, whose
// whole size is reserved at once: a disk that is too small is an error here, not a signal while threads
// write. commit() brings it to the disk and renames it over the target; without commit() the destructor
// removes it. (A process that is killed leaves it behind.)
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include <trilith/core/error.hpp>
#include <trilith/core/named_shape.hpp>
#include <trilith/core/tensor.hpp>
#include <trilith/train/mapped_file.hpp>

namespace trilith::inline v0 {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little endian; writing them here would need byte swaps");

class SafetensorsWriter {
 public:
  // A file of float32 tensors, in this order. Names and metadata are UTF-8.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<NamedShape>& tensors,
                    const std::map<std::string, std::string>& metadata = {})
      : target_(resolve(path)) {
    const std::string header = lay_out(tensors, metadata);
    const std::uint64_t header_length = header.size();
    data_offset_ = sizeof(header_length) + header.size();
    const std::uint64_t size = data_offset_ + data_size_;
    check_target();
    check_space(size);
    open_partial();
    try {
      reserve(size);
      mapping_ = FileMapping(file_, size, FileMapping::Access::write, partial_);
    } catch (...) {
      ::unlink(partial_.c_str());
      throw;
    }
    std::memcpy(mapping_.data(), &header_length, sizeof(header_length));
    std::memcpy(mapping_.data() + sizeof(header_length), header.data(), header.size());
  }

  ~SafetensorsWriter() {
    if (!committed_) ::unlink(partial_.c_str());
  }

  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // The memory of a tensor, row by row, zero until it is filled. Any thread may ask for it; who fills which
  // elements is the callers' affair. It is gone after commit().
  Vector<float> tensor(std::string_view name) {
    const auto place = places_.find(name);
    const bool over = mapping_.data() == nullptr;
    if (place == places_.end() || over) {
      throw Error("tensor " + std::string(name) + " cannot be written to " + target_.string() +
                      (over ? ", which is committed" : ", which was begun without it"),
                  "name every tensor when the writer is made, and fill it before commit()");
    }
    const Place& at = place->second;
    handed_out_[at.number].store(true, std::memory_order_relaxed);
    return {reinterpret_cast<float*>(mapping_.data() + data_offset_ + at.offset), {at.size}};
  }

  // Puts the file in the target's place. Every tensor must have been asked for, so that a rank that never
  // came does not leave zeros. No thread may be writing any more.
  void commit() {
    if (mapping_.data() == nullptr) {
      throw Error(target_.string() + " is committed already", "commit a file once");
    }
    for (const auto& [name, place] : places_) {
      if (!handed_out_[place.number].load(std::memory_order_relaxed)) {
        throw Error("tensor " + name + " of " + target_.string() + " was never written",
                    "fill every tensor before commit()");
      }
    }
    struct stat status {};
    if (::msync(mapping_.data(), mapping_.size(), MS_SYNC) != 0 || ::fsync(file_.number()) != 0 ||
        ::fstat(file_.number(), &status) != 0) {
      fail("its data did not reach the disk: " + system_message(errno));
    }
    if (static_cast<std::uint64_t>(status.st_size) != mapping_.size()) {
      fail("another process changed the size of " + partial_.string());
    }
    mapping_ = FileMapping();
    if (::rename(partial_.c_str(), target_.c_str()) != 0) {
      fail(partial_.string() + " could not take its name: " + system_message(errno));
    }
    committed_ = true;
    // So that the new name outlives a power cut. The file is whole already, so no error is thrown here.
    const FileDescriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.number() >= 0) ::fsync(folder.number());
  }

 private:
  struct Place {
    std::size_t number;
    std::uint64_t offset;  // bytes from the begin of the data
    Index size;            // elements
  };

  // The file that `path` names through links, there or not: the rename shall put it there, and not in a
  // link's place.
  static std::filesystem::path resolve(std::filesystem::path path) {
    std::error_code ignored;
    for (int links = 0; links < 40 && std::filesystem::is_symlink(path, ignored); ++links) {
      path = folder_of(path) / std::filesystem::read_symlink(path, ignored);
    }
    return path;
  }

  static std::filesystem::path folder_of(const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : ".";
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw Error("cannot save " + target_.string() + ": " + reason,
                "a file of that name is as it was; give a path that can be written");
  }

  [[noreturn]] void misuse(const std::string& reason) const {
    throw Error("cannot save " + target_.string() + ": " + reason,
                "give every tensor its own name, in UTF-8, and a shape that fits a file");
  }

  // Sets places_ and data_size_, and returns the header.
  std::string lay_out(const std::vector<NamedShape>& tensors,
                      const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    for (const auto& [name, shape] : tensors) {
      Index size = 1;
      Index bytes = 0;
      Index end = 0;
      bool fits = true;
      for (const Index extent : shape) {
        fits = fits && extent >= 0 && !__builtin_mul_overflow(size, extent, &size);
      }
      if (!fits || __builtin_mul_overflow(size, Index{sizeof(float)}, &bytes) ||
          __builtin_add_overflow(static_cast<Index>(data_size_), bytes, &end) || end > INT64_MAX / 2) {
        misuse("the shape of tensor " + name + " is negative or too large");
      }
      const Place place{places_.size(), data_size_, size};
      if (name == "__metadata__" || !places_.emplace(name, place).second) {
        misuse("two tensors would have the name " + name);
      }
      header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {data_size_, end}}};
      data_size_ = static_cast<std::uint64_t>(end);
    }
    handed_out_ = std::make_unique<std::atomic<bool>[]>(places_.size());
    std::string text;
    try {
      text = header.dump();
    } catch (const nlohmann::json::exception&) {
      misuse("a name or its metadata is not UTF-8");
    }
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of 8
    return text;
  }

  void check_target() const {
    struct stat status {};
    const std::filesystem::path folder = folder_of(target_);
    if (target_.empty()) fail("its name is empty");
    if (::stat(folder.c_str(), &status) != 0) {
      fail("its folder " + folder.string() + " cannot be used: " + system_message(errno));
    }
    if (!S_ISDIR(status.st_mode)) fail(folder.string() + " is no folder");
    if (::stat(target_.c_str(), &status) != 0) {
      if (errno == ENOENT) return;
      fail("it cannot be looked at: " + system_message(errno));
    }
    if (S_ISDIR(status.st_mode)) fail("it is a folder");
    if (!S_ISREG(status.st_mode)) fail("it is no regular file");
    if (::access(target_.c_str(), W_OK) != 0) {
      fail("the file that is there is protected: " + system_message(errno));
    }
  }

  // Asked before anything is created: beyond the limit on file sizes the system would answer with a signal,
  // and a disk that is too small need not be filled first.
  void check_space(std::uint64_t size) const {
    struct rlimit limit {};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur) {
      fail("it would have " + std::to_string(size) + " bytes, and this process may write files of " +
           std::to_string(limit.rlim_cur) + " (ulimit -f)");
    }
    struct statvfs disk {};
    if (::statvfs(folder_of(target_).c_str(), &disk) == 0 && disk.f_blocks > 0 &&
        size / disk.f_frsize > disk.f_bavail) {
      fail("it would have " + std::to_string(size) + " bytes, and the disk has " +
           std::to_string(std::uint64_t{disk.f_bavail} * disk.f_frsize) + " left");
    }
  }

  void open_partial() {
    static std::atomic<unsigned> count = 0;  // a program may have several writers
    do {
      partial_ = target_;
      partial_ += ".partial-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
      file_ = FileDescriptor(::open(partial_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    } while (file_.number() < 0 && errno == EEXIST);
    if (file_.number() < 0) {
      fail(partial_.string() + " cannot be created: " + system_message(errno));
    }
    struct stat old {};
    if (::stat(target_.c_str(), &old) == 0) ::fchmod(file_.number(), old.st_mode & 0777);
  }

  void reserve(std::uint64_t size) const {
    const int error = ::posix_fallocate(file_.number(), 0, static_cast<off_t>(size));
    if (error != 0) {
      fail(std::to_string(size) + " bytes cannot be reserved for it: " + system_message(error));
    }
  }

  std::filesystem::path target_;
  std::filesystem::path partial_;
  FileDescriptor file_;
  FileMapping mapping_;
  std::uint64_t data_offset_ = 0;
  std::uint64_t data_size_ = 0;
  std::map<std::string, Place, std::less<>> places_;
  std::unique_ptr<std::atomic<bool>[]> handed_out_;
  bool committed_ = false;
};

}  // namespace trilith::inline v0
