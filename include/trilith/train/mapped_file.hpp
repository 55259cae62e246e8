// Files as the trainer reads them: mapped into memory, with errors that name the file.
//
// A mapping keeps the file that was opened, whatever is renamed over its path later, so a checkpoint can
// be saved over the one in use. A file must not shrink while it is mapped: the system answers a read
// behind its end with a signal.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <trilith/core/error.hpp>

namespace trilith::inline v0 {

// What the system calls error `number`, as "Permission denied".
inline std::string system_message(int number) {
  return std::generic_category().message(number);
}

// Owns an open file of the operating system.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int number() const { return number_; }

 private:
  int number_;
};

// Owns a mapping of a whole file, and is empty for an empty file.
class FileMapping {
 public:
  enum class Access { read, write };

  FileMapping() = default;

  // `path` is for errors only.
  FileMapping(const FileDescriptor& file, std::size_t size, Access access, const std::filesystem::path& path)
      : size_(size) {
    if (size == 0) return;
    const bool write = access == Access::write;
    void* data = ::mmap(nullptr, size, write ? PROT_READ | PROT_WRITE : PROT_READ,
                        write ? MAP_SHARED : MAP_PRIVATE, file.number(), 0);
    if (data == MAP_FAILED) {
      throw Error(path.string() + " cannot be mapped into memory (" + std::to_string(size) +
                      " bytes): " + system_message(errno),
                  "give the process more address space or a smaller file");
    }
    data_ = static_cast<std::byte*>(data);
  }

  FileMapping(FileMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  FileMapping& operator=(FileMapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~FileMapping() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A file to read, as bytes. Throws Error if it is missing, unreadable or no regular file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    // Without O_NONBLOCK, opening a pipe waits for its writer.
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (file.number() < 0 || ::fstat(file.number(), &status) != 0) {
      throw Error(path.string() + " cannot be read: " + system_message(errno),
                  "check the path and the permissions");
    }
    if (!S_ISREG(status.st_mode)) {
      throw Error(path.string() + (S_ISDIR(status.st_mode) ? " is a folder" : " is no regular file"),
                  "give a file");
    }
    mapping_ = FileMapping(file, static_cast<std::size_t>(status.st_size), FileMapping::Access::read, path);
  }

  std::span<const std::byte> bytes() const { return {mapping_.data(), mapping_.size()}; }

 private:
  FileMapping mapping_;
};

}  // namespace trilith::inline v0
