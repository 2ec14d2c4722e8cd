// The levels of processors, the best first, that this machine can run.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace {

std::vector<std::string> levels() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4) found.emplace_back("x86-64-v4");
  if (v3) found.emplace_back("x86-64-v3");
#elif defined(__aarch64__)
  found.emplace_back("aarch64");
#endif
  found.emplace_back("portable");
  return found;
}

}  // namespace

NB_MODULE(_level, m) {
  m.doc() = "The levels of processors that this machine can run.";
  m.def("levels", &levels, "Levels that this machine can run, the best first.");
}
