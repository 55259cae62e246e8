// Files for tests: a folder that lasts as long as a test, what stands in a file, and what an error says.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <trilith/core/error.hpp>

namespace trilith::test {

class TempFolder {
 public:
  TempFolder() {
    std::string path = testing::TempDir() + "/trilith-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) throw Error("no folder for the test at " + path, "");
    path_ = path;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  // Writes a file, and the folders on its way. An old one is removed first: to overwrite it can wait for the
  // disk.
  std::filesystem::path write(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  // Names of all that lies in the folder itself.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// What the Error says that `act` throws; empty if it throws none.
template <class Act>
std::string error_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// While it lives, a test that runs as root has no more rights than any user.
class WithoutPrivileges {
 public:
  WithoutPrivileges() : user_(::geteuid()) {
    if (user_ == 0 && ::seteuid(65534) != 0) throw Error("cannot give up root's rights", "");
  }
  ~WithoutPrivileges() {
    if (::seteuid(user_) != 0) std::abort();
  }
  WithoutPrivileges(const WithoutPrivileges&) = delete;
  WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;

 private:
  uid_t user_;
};

// The bytes of some numbers as they lie in memory.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A safetensors file, sound or not.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return bytes_of(std::vector<std::uint64_t>{header.size()}) + std::string(header) + std::string(data);
}

}  // namespace trilith::test
