// What a library says of its statuses.
#pragma once

#include <cstddef>

namespace trilith::test::imitation {

template <class Status>
struct Meaning {
  Status status;
  const char* name;
  const char* text;
};

template <class Status, std::size_t count>
Meaning<Status> meaning_of(Status status, const Meaning<Status> (&meanings)[count]) {
  for (const Meaning<Status>& each : meanings) {
    if (each.status == status) return each;
  }
  return {status, "unrecognized error code", "unrecognized error code"};
}

}  // namespace trilith::test::imitation
