#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <trilith/trace/json.hpp>

#include "test/trace/timelines.hpp"

namespace trilith {
namespace {

TEST(Json, HasTheFiguresInBothConventions) {
  const nlohmann::json json = nlohmann::json::parse(trace::json(test::drawn<OneFOneB>(4, 8).timeline).dump());
  EXPECT_EQ(json["policy"], "OneFOneB");
  EXPECT_EQ(json["p"], 4);
  EXPECT_EQ(json["m"], 8);
  EXPECT_EQ(json["chunks"], 1);
  EXPECT_EQ(json["makespan"], 33);
  EXPECT_EQ(json["bubble"]["fraction"], "3/11");
  EXPECT_NEAR(json["bubble"]["percent"], 27.27, 0.01);
  EXPECT_EQ(json["bubble_of_ideal"]["fraction"], "3/8");
  EXPECT_NEAR(json["bubble_of_ideal"]["percent"], 37.5, 1e-9);
  EXPECT_EQ(json["peak_in_flight"], nlohmann::json({4, 3, 2, 1}));
  EXPECT_EQ(json["busy"], nlohmann::json({24, 24, 24, 24}));
  EXPECT_EQ(json["messages"], 48);
}

TEST(Json, EscapesNames) {
  const test::Drawn d = test::drawn<OneFOneB>(1, 1, {}, "\"quoted\"\n");
  EXPECT_EQ(nlohmann::json::parse(trace::json(d.timeline).dump())["policy"], "\"quoted\"\n");
}

}  // namespace
}  // namespace trilith
