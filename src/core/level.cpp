// The levels of processors, the best first, that this machine can run.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

#if defined(__x86_64__)
// Numbers of bits in what cpuid returns, and of the registers that the operating system saves.
constexpr unsigned FMA = 12, MOVBE = 22, POPCNT = 23, OSXSAVE = 27, AVX = 28, F16C = 29;                // 1, ecx
constexpr unsigned BMI = 3, AVX2 = 5, BMI2 = 8, AVX512F = 16, AVX512DQ = 17, AVX512CD = 28, AVX512BW = 30, AVX512VL = 31;
constexpr unsigned LZCNT = 5;                                                                  // 0x80000001, ecx
constexpr unsigned XMM = 1, YMM = 2, MASKS = 5, ZMM = 6, MORE_ZMM = 7;

template <class... Bits>
bool all(unsigned word, Bits... bits) {
  return ((word >> bits & 1) && ...);
}

// 4 for AVX-512 as in x86-64-v4, 3 for AVX2 as in x86-64-v3, else 0.
int x86_level() {
  unsigned a, b, c, d, basic, extended, more, saved;
  if (!__get_cpuid(1, &a, &b, &basic, &d) || !all(basic, FMA, MOVBE, POPCNT, OSXSAVE, AVX, F16C)) return 0;
  if (!__get_cpuid_count(7, 0, &a, &extended, &c, &d) || !all(extended, BMI, AVX2, BMI2)) return 0;
  if (!__get_cpuid(0x80000001, &a, &b, &more, &d) || !all(more, LZCNT)) return 0;
  asm("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  if (!all(saved, XMM, YMM)) return 0;
  const bool wide = all(extended, AVX512F, AVX512DQ, AVX512CD, AVX512BW, AVX512VL);
  return wide && all(saved, MASKS, ZMM, MORE_ZMM) ? 4 : 3;
}
#endif

// Whether the arithmetic was compiled for a level, by its name in CMakeLists.txt.
bool is_built(const char* level) { return std::strstr(CORE_LEVELS, level) != nullptr; }

std::vector<std::string> levels() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  const int best = x86_level();
  if (best >= 4 && is_built("v4")) found.emplace_back("x86-64-v4");
  if (best >= 3 && is_built("v3")) found.emplace_back("x86-64-v3");
#elif defined(__aarch64__)
  if (is_built("aarch64")) found.emplace_back("aarch64");
#endif
  if (is_built("portable")) found.emplace_back("portable");
  return found;
}

}  // namespace

NB_MODULE(_level, m) {
  m.doc() = "The levels of processors that this machine can run.";
  m.def("levels", &levels, "Levels that this machine can run, the best first.");
}
