// The world concept: ranks, some or all of them in this process, and tasks that run on them.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <vector>

#include <trilith/comm/communicator.hpp>

namespace trilith::inline v0 {

// What a task sees of the rank it runs on.
template <class R>
concept world_rank = requires(R& rank, const std::string& name, const std::vector<int>& members) {
  requires communicator<typename R::communicator>;
  { rank.rank() } -> std::same_as<int>;
  { rank.size() } -> std::same_as<int>;
  // the communicator of these ranks of the world; every member must ask for it
  { rank.group(name, members) } -> std::same_as<typename R::communicator>;
};

template <class W>
concept world = requires(W& w, const std::function<void(typename W::rank_type&)>& task) {
  requires world_rank<typename W::rank_type>;
  requires std::same_as<typename W::communicator, typename W::rank_type::communicator>;
  { w.size() } -> std::same_as<int>;
  // calls task(rank) on each rank of this process; when one throws, all stop and run() throws what it threw
  w.run(task);
};

}  // namespace trilith::inline v0
