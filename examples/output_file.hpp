// A file that an example writes.
#pragma once

#include <fstream>
#include <ostream>
#include <string>
#include <utility>

#include <trilith/core/error.hpp>

class OutputFile {
 public:
  // Opens it, so that a file that cannot be written is refused before anything is computed.
  explicit OutputFile(std::string path) : path_(std::move(path)), file_(path_) {
    trilith::require(file_.is_open(), path_ + " cannot be written", "give a file in a folder that exists");
  }

  void write(const std::string& text) {
    file_ << text << std::flush;
    trilith::require(file_.good(), path_ + " cannot be written to", "make room on the disk");
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::ofstream file_;
};
