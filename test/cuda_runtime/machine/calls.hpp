// Every call of the imitation is counted by its name, and can be made to fail by its number.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace trilith::test::imitation {

class Calls {
 public:
  // How often it has been called.
  std::int64_t count(const std::string& name) const {
    const auto place = counts_.find(name);
    return place == counts_.end() ? 0 : place->second;
  }

  // The n-th call from now, from 1 on, answers `status` and does nothing else.
  void fail(const std::string& name, std::int64_t n, int status) {
    failures_[name] = {counts_[name] + n, status};
  }

  // Counts a call. Returns the status that it is to answer, or 0.
  int begin(const std::string& name) {
    const std::int64_t number = ++counts_[name];
    const auto place = failures_.find(name);
    return place != failures_.end() && place->second.at == number ? place->second.status : 0;
  }

 private:
  struct Failure {
    std::int64_t at;
    int status;
  };
  std::map<std::string, std::int64_t> counts_;
  std::map<std::string, Failure> failures_;
};

}  // namespace trilith::test::imitation
