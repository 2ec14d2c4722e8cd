// Numbers of any size: m · 2^k, with 1/2 <= m < 1 and a whole number k that is kept as a double.
//
// A product is m m' · 2^(k + k'), a sum is taken at the largest k of its terms, and each has a relative error of one
// rounding, for any k. A logarithm in a double is worse: its rounding grows with its size, and becomes a relative
// error of the number. Zero is m = 0, k = -inf. A row of wide numbers has the m of all labels, then their k.
#pragma once

#include "arrays.hpp"
#include "simd.hpp"

namespace core {

constexpr double MOST_EXACT = 1e6;  // of a score below it, what is left when k · ln 2 is taken out is exact

struct Wide {
  double m, k;
};

// 2^k for a whole number k <= 1023; zero below the range of a double.
INLINE double power(double k) {
  return k >= -1022.0 ? bits_as<double>((int64_t(k) + 1023) << 52) : 0.0;
}

// The same number with 1/2 <= m < 1.
INLINE Wide normal(double m, double k) {
  if (!(m > 0.0)) return {0.0, -INFINITE};
  const double exponent = double(int64_t(bits_as<uint64_t>(m) >> 52) - 1022);
  return {m * power(-exponent), k + exponent};
}

// e^x = m · 2^k, m near one. Beyond |x| = 1e15, where doubles are more than one apart, k alone counts; it overflows
// where |x| > 1.2e308.
INLINE Wide wide_exp(double x) {
  if (!(x > -INFINITE)) return {0.0, -INFINITE};
  const double k = __builtin_floor(x * PER_LN2 + 0.5);
  double rest = (x - k * LN2_HIGH) - k * LN2_LOW;
  rest = rest > -1.0 ? rest : -1.0;
  return {exp(rest < 1.0 ? rest : 1.0), k};
}

// Number i of a row as a double, zero where it is too small for one.
INLINE double real(const double* row, Int i, bool wide, Int width) {
  return wide ? row[i] * power(row[width + i]) : row[i];
}

// log(row(i) / whole)
INLINE double log_share(const double* row, Int i, bool wide, Int width, double whole) {
  if (row[i] <= 0.0) return -INFINITE;
  const double k = wide ? row[width + i] : 0.0;
  return k * LN2_HIGH + (k * LN2_LOW + log(row[i] / whole));
}

}  // namespace core
