#include <trilith/trilith.hpp>

int main() {}
