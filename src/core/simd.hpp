// Vectors of doubles, with one result on every processor.
//
//   Vec<N>   N doubles, N = 4 or a multiple of 8, in as many registers as it takes
//
//   load(p)  store(p, a)  splat(x)  a + b  a - b  a * b  a / b  fma(a, b, c) = a·b + c in one rounding
//   where_greater(a, b, x, y): lane by lane x where a > b, else y (also where a or b is not a number)
//   maximum(a, b) = where_greater(a, b, a, b)  minimum  sum(a)  greatest(a)  least(a)  lane<k>(a)  sqrt(a)  exp(a)
//   equal(a, b): bit k is set where lanes k are equal
//
// All that differs between processors is a register, `Reg<R>`: AVX-512 has eight doubles, AVX2 four, NEON two, and the
// portable level one. Lanes are folded in an order that does not depend on it, a maximum is a > b ? a : b, as on x86
// (processors disagree on one that is not a number), and nothing is contracted or reassociated. The portable level has
// no fused multiply-add and may differ in the last bits.
#pragma once

#include <cfloat>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "chainfold needs doubles as they are written: no -ffast-math, no extended precision"
#endif

#if defined(CORE_PORTABLE)
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#else
#define CORE_PORTABLE
#endif

#define INLINE inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))

namespace core {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

template <class To, class From>
INLINE To bits_as(From from) {
  To to;
  static_assert(sizeof to == sizeof from, "");
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// A register of R doubles.
template <int R>
struct Reg;

template <>
struct Reg<1> {
  using T = double;
  static INLINE T load(const double* p) { return *p; }
  static INLINE void store(double* p, T a) { *p = a; }
  static INLINE T splat(double x) { return x; }
  static INLINE T add(T a, T b) { return a + b; }
  static INLINE T sub(T a, T b) { return a - b; }
  static INLINE T mul(T a, T b) { return a * b; }
  static INLINE T div(T a, T b) { return a / b; }
  static INLINE T sqrt(T a) { return __builtin_sqrt(a); }
  static INLINE T max(T a, T b) { return a > b ? a : b; }
  static INLINE T min(T a, T b) { return b > a ? a : b; }
#ifdef CORE_PORTABLE
  static INLINE T fma(T a, T b, T c) { return a * b + c; }
#else
  static INLINE T fma(T a, T b, T c) { return __builtin_fma(a, b, c); }
#endif
  static INLINE T where_greater(T a, T b, T x, T y) { return a > b ? x : y; }
  static INLINE unsigned equal(T a, T b) { return a == b; }
  // 2^k, k the whole number in the lowest bits of a
  static INLINE T power(T a) { return bits_as<double>((bits_as<uint64_t>(a) + 1023) << 52); }
  // lane k in every lane
  template <int k>
  static INLINE T lane(T a) {
    return a;
  }
  // each lane exchanged with the one at a distance of 4, 2 or 1
  template <int distance>
  static INLINE T swapped(T a) {
    return a;
  }
  static INLINE double first(T a) { return a; }
};

#if !defined(CORE_PORTABLE) && defined(__AVX2__)
template <>
struct Reg<4> {
  using T = __m256d;
  static INLINE T load(const double* p) { return _mm256_loadu_pd(p); }
  static INLINE void store(double* p, T a) { _mm256_storeu_pd(p, a); }
  static INLINE T splat(double x) { return _mm256_set1_pd(x); }
  static INLINE T add(T a, T b) { return _mm256_add_pd(a, b); }
  static INLINE T sub(T a, T b) { return _mm256_sub_pd(a, b); }
  static INLINE T mul(T a, T b) { return _mm256_mul_pd(a, b); }
  static INLINE T div(T a, T b) { return _mm256_div_pd(a, b); }
  static INLINE T sqrt(T a) { return _mm256_sqrt_pd(a); }
  static INLINE T max(T a, T b) { return _mm256_max_pd(a, b); }
  static INLINE T min(T a, T b) { return _mm256_min_pd(a, b); }
  static INLINE T fma(T a, T b, T c) { return _mm256_fmadd_pd(a, b, c); }
  static INLINE T where_greater(T a, T b, T x, T y) {
    return a > b ? x : y;  // written as a blend, it costs one instruction more with GCC 12
  }
  static INLINE unsigned equal(T a, T b) { return unsigned(_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_EQ_OQ))); }
  static INLINE T power(T a) {
    const __m256i k = _mm256_add_epi64(_mm256_castpd_si256(a), _mm256_set1_epi64x(1023));
    return _mm256_castsi256_pd(_mm256_slli_epi64(k, 52));
  }
  template <int k>
  static INLINE T lane(T a) {
    return _mm256_permute4x64_pd(a, 0x55 * k);
  }
  template <int k>
  static INLINE T lane_of_two(T a) {
    return _mm256_permute_pd(a, 0xF * k);
  }
  template <int distance>
  static INLINE T swapped(T a) {
    return _mm256_permute4x64_pd(a, distance == 2 ? 0x4E : 0xB1);
  }
  static INLINE double first(T a) { return _mm256_cvtsd_f64(a); }
};
#endif

#if !defined(CORE_PORTABLE) && defined(__AVX512F__)
template <>
struct Reg<8> {
  using T = __m512d;
  static INLINE T load(const double* p) { return _mm512_loadu_pd(p); }
  static INLINE void store(double* p, T a) { _mm512_storeu_pd(p, a); }
  static INLINE T splat(double x) { return _mm512_set1_pd(x); }
  static INLINE T add(T a, T b) { return _mm512_add_pd(a, b); }
  static INLINE T sub(T a, T b) { return _mm512_sub_pd(a, b); }
  static INLINE T mul(T a, T b) { return _mm512_mul_pd(a, b); }
  static INLINE T div(T a, T b) { return _mm512_div_pd(a, b); }
  static INLINE T sqrt(T a) { return _mm512_sqrt_pd(a); }
  static INLINE T max(T a, T b) { return _mm512_max_pd(a, b); }
  static INLINE T min(T a, T b) { return _mm512_min_pd(a, b); }
  static INLINE T fma(T a, T b, T c) { return _mm512_fmadd_pd(a, b, c); }
  static INLINE T where_greater(T a, T b, T x, T y) {
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(a, b, _CMP_GT_OQ), y, x);
  }
  static INLINE unsigned equal(T a, T b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
  static INLINE T power(T a) {
    const __m512i k = _mm512_add_epi64(_mm512_castpd_si512(a), _mm512_set1_epi64(1023));
    return _mm512_castsi512_pd(_mm512_slli_epi64(k, 52));
  }
  template <int k>
  static INLINE T lane(T a) {
    return _mm512_permute_pd(_mm512_shuffle_f64x2(a, a, 0x55 * (k / 2)), k % 2 ? 0xFF : 0);
  }
  template <int distance>
  static INLINE T swapped(T a) {
    return distance == 4 ? _mm512_shuffle_f64x2(a, a, 0x4E) : _mm512_permutex_pd(a, distance == 2 ? 0x4E : 0xB1);
  }
  template <int which>
  static INLINE __m256d half(T a) {
    return _mm512_extractf64x4_pd(a, which);
  }
  static INLINE double first(T a) { return _mm512_cvtsd_f64(a); }
};
constexpr int WIDEST = 8, REGISTERS = 32;
#elif !defined(CORE_PORTABLE) && defined(__AVX2__)
constexpr int WIDEST = 4, REGISTERS = 16;
#elif !defined(CORE_PORTABLE)
template <>
struct Reg<2> {
  using T = float64x2_t;
  static INLINE T load(const double* p) { return vld1q_f64(p); }
  static INLINE void store(double* p, T a) { vst1q_f64(p, a); }
  static INLINE T splat(double x) { return vdupq_n_f64(x); }
  static INLINE T add(T a, T b) { return vaddq_f64(a, b); }
  static INLINE T sub(T a, T b) { return vsubq_f64(a, b); }
  static INLINE T mul(T a, T b) { return vmulq_f64(a, b); }
  static INLINE T div(T a, T b) { return vdivq_f64(a, b); }
  static INLINE T sqrt(T a) { return vsqrtq_f64(a); }
  static INLINE T max(T a, T b) { return vbslq_f64(vcgtq_f64(a, b), a, b); }
  static INLINE T min(T a, T b) { return vbslq_f64(vcgtq_f64(b, a), a, b); }
  static INLINE T fma(T a, T b, T c) { return vfmaq_f64(c, a, b); }
  static INLINE T where_greater(T a, T b, T x, T y) { return vbslq_f64(vcgtq_f64(a, b), x, y); }
  static INLINE unsigned equal(T a, T b) {
    const uint64x2_t same = vceqq_f64(a, b);
    return unsigned(vgetq_lane_u64(same, 0) & 1) | unsigned(vgetq_lane_u64(same, 1) & 2);
  }
  static INLINE T power(T a) {
    const int64x2_t k = vaddq_s64(vreinterpretq_s64_f64(a), vdupq_n_s64(1023));
    return vreinterpretq_f64_s64(vshlq_n_s64(k, 52));
  }
  template <int k>
  static INLINE T lane(T a) {
    return vdupq_laneq_f64(a, k);
  }
  template <int>
  static INLINE T swapped(T a) {
    return vextq_f64(a, a, 1);
  }
  static INLINE double first(T a) { return vgetq_lane_f64(a, 0); }
};
constexpr int WIDEST = 2, REGISTERS = 32;
#else
constexpr int WIDEST = 1, REGISTERS = 16;
#endif

// f(k) for each k, written out unless they are many registers.
template <class F, int... K>
INLINE void each(std::integer_sequence<int, K...>, [[maybe_unused]] F f) {
  if constexpr (sizeof...(K) <= 16) {
    (f(std::integral_constant<int, K>{}), ...);
  } else {
    for (int k = 0; k < int(sizeof...(K)); ++k) f(k);
  }
}

// N doubles.
template <int N>
struct Vec {
  static constexpr int R = N % WIDEST == 0 ? WIDEST : (N < WIDEST ? N : 1), COUNT = N / R;
  using Register = Reg<R>;
  typename Register::T reg[COUNT];

  template <class F>
  static INLINE Vec of(F make) {
    Vec a;
    each(std::make_integer_sequence<int, COUNT>{}, [&](auto k) INLINE_LAMBDA { a.reg[k] = make(k); });
    return a;
  }
};

template <int N>
INLINE Vec<N> load(const double* p) {
  return Vec<N>::of([&](auto k) INLINE_LAMBDA { return Vec<N>::Register::load(p + k * Vec<N>::R); });
}

template <int N>
INLINE void store(double* p, const Vec<N>& a) {
  each(std::make_integer_sequence<int, Vec<N>::COUNT>{},
       [&](auto k) INLINE_LAMBDA { Vec<N>::Register::store(p + k * Vec<N>::R, a.reg[k]); });
}

template <int N>
INLINE Vec<N> splat(double x) {
  const auto one = Vec<N>::Register::splat(x);
  return Vec<N>::of([&](auto) INLINE_LAMBDA { return one; });
}

template <int N, class F>
INLINE Vec<N> lanewise(const Vec<N>& a, const Vec<N>& b, F op) {
  return Vec<N>::of([&](auto k) INLINE_LAMBDA { return op(a.reg[k], b.reg[k]); });
}

template <int N>
INLINE Vec<N> operator+(const Vec<N>& a, const Vec<N>& b) {
  return lanewise(a, b, Vec<N>::Register::add);
}
template <int N>
INLINE Vec<N> operator-(const Vec<N>& a, const Vec<N>& b) {
  return lanewise(a, b, Vec<N>::Register::sub);
}
template <int N>
INLINE Vec<N> operator*(const Vec<N>& a, const Vec<N>& b) {
  return lanewise(a, b, Vec<N>::Register::mul);
}
template <int N>
INLINE Vec<N> operator/(const Vec<N>& a, const Vec<N>& b) {
  return lanewise(a, b, Vec<N>::Register::div);
}
template <int N>
INLINE Vec<N> fma(const Vec<N>& a, const Vec<N>& b, const Vec<N>& c) {
  return Vec<N>::of([&](auto k) INLINE_LAMBDA { return Vec<N>::Register::fma(a.reg[k], b.reg[k], c.reg[k]); });
}
template <int N>
INLINE Vec<N> sqrt(const Vec<N>& a) {
  return Vec<N>::of([&](auto k) INLINE_LAMBDA { return Vec<N>::Register::sqrt(a.reg[k]); });
}
template <int N>
INLINE Vec<N> where_greater(const Vec<N>& a, const Vec<N>& b, const Vec<N>& x, const Vec<N>& y) {
  return Vec<N>::of([&](auto k) INLINE_LAMBDA {
    return Vec<N>::Register::where_greater(a.reg[k], b.reg[k], x.reg[k], y.reg[k]);
  });
}
template <int N>
INLINE Vec<N> maximum(const Vec<N>& a, const Vec<N>& b) {
  return lanewise(a, b, Vec<N>::Register::max);
}
template <int N>
INLINE Vec<N> minimum(const Vec<N>& a, const Vec<N>& b) {
  return lanewise(a, b, Vec<N>::Register::min);
}

template <int N>
INLINE uint64_t equal(const Vec<N>& a, const Vec<N>& b) {
  uint64_t lanes = 0;
  each(std::make_integer_sequence<int, Vec<N>::COUNT>{}, [&](auto k) INLINE_LAMBDA {
    lanes |= uint64_t(Vec<N>::Register::equal(a.reg[k], b.reg[k])) << k * Vec<N>::R;
  });
  return lanes;
}

// Lane k of a in every lane.
template <int k, int M, int N>
INLINE Vec<M> lane(const Vec<N>& a) {
  const auto one = Vec<N>::Register::template lane<k % Vec<N>::R>(a.reg[k / Vec<N>::R]);
  if constexpr (Vec<M>::R == Vec<N>::R) {
    return Vec<M>::of([&](auto) INLINE_LAMBDA { return one; });
  } else {
    return splat<M>(Vec<N>::Register::first(one));
  }
}

// Lane k of a, k < 2, in the first two lanes at least: to others it may take longer.
template <int k, int N>
INLINE Vec<N> lane_of_two(const Vec<N>& a) {
  if constexpr (Vec<N>::R == 4) {
    return Vec<N>{{Vec<N>::Register::template lane_of_two<k>(a.reg[0])}};
  } else {
    return lane<k, N>(a);
  }
}

// Each lane exchanged with the one at a distance of 2 or 1, in a vector of eight.
template <int distance, int N>
INLINE Vec<N> swapped(const Vec<N>& a) {
  constexpr int APART = distance / Vec<N>::R;  // registers
  if constexpr (APART > 0) {
    return Vec<N>::of([&](auto k) INLINE_LAMBDA { return a.reg[k ^ APART]; });
  } else {
    return Vec<N>::of([&](auto k) INLINE_LAMBDA { return Vec<N>::Register::template swapped<distance>(a.reg[k]); });
  }
}

// The first or the second half of eight lanes.
template <int which, int N>
INLINE Vec<4> half(const Vec<N>& a) {
  if constexpr (Vec<N>::R == 8) {
    return Vec<4>{{Vec<N>::Register::template half<which>(a.reg[0])}};
  } else {
    return Vec<4>::of([&](auto k) INLINE_LAMBDA { return a.reg[which * Vec<4>::COUNT + k]; });
  }
}

// The lanes, combined eight at a time in order, then in halves; the result is in every lane.
template <int N, class F>
INLINE auto folded_lanes(const Vec<N>& a, F op) {
  using A = Reg<Vec<N>::R>;
  constexpr int GROUP = (N < 8 ? N : 8) / Vec<N>::R;  // registers in a group of eight lanes
  typename A::T r[GROUP];
  each(std::make_integer_sequence<int, GROUP>{}, [&](auto k) INLINE_LAMBDA { r[k] = a.reg[k]; });
  each(std::make_integer_sequence<int, Vec<N>::COUNT - GROUP>{},
       [&](auto k) INLINE_LAMBDA { r[k % GROUP] = op(r[k % GROUP], a.reg[GROUP + k]); });
  if constexpr (GROUP >= 8) {
    each(std::make_integer_sequence<int, 4>{}, [&](auto k) INLINE_LAMBDA { r[k] = op(r[k], r[k + 4]); });
  }
  if constexpr (GROUP >= 4) {
    each(std::make_integer_sequence<int, 2>{}, [&](auto k) INLINE_LAMBDA { r[k] = op(r[k], r[k + 2]); });
  }
  if constexpr (GROUP >= 2) r[0] = op(r[0], r[1]);
  if constexpr (Vec<N>::R >= 8) r[0] = op(r[0], A::template swapped<4>(r[0]));
  if constexpr (Vec<N>::R >= 4) r[0] = op(r[0], A::template swapped<2>(r[0]));
  if constexpr (Vec<N>::R >= 2) r[0] = op(r[0], A::template swapped<1>(r[0]));
  return r[0];
}
template <int N, class F>
INLINE double folded(const Vec<N>& a, F op) {
  return Vec<N>::Register::first(folded_lanes(a, op));
}
template <int N>
INLINE double sum(const Vec<N>& a) {
  return folded(a, Vec<N>::Register::add);
}
template <int N>
INLINE double greatest(const Vec<N>& a) {
  return folded(a, Vec<N>::Register::max);
}
// The greatest lane in every lane.
template <int N>
INLINE Vec<N> greatest_lanes(const Vec<N>& a) {
  const auto one = folded_lanes(a, Vec<N>::Register::max);
  return Vec<N>::of([&](auto) INLINE_LAMBDA { return one; });
}
template <int N>
INLINE double least(const Vec<N>& a) {
  return folded(a, [](auto x, auto y) INLINE_LAMBDA { return Vec<N>::Register::where_greater(y, x, x, y); });
}

// exp(x) = 2^k · e^r with k = rint(x / ln 2), |r| <= ln 2 / 2, and e^r its Taylor series to r^13: the remainder,
// (ln 2 / 2)^14 / 14! = 4e-18, is below half a rounding. ln 2 is split so that k · LN2_HIGH is exact.
constexpr double LN2_HIGH = 6.93145751953125e-1, LN2_LOW = 1.42860682030941723212e-6, PER_LN2 = 1.4426950408889634;
constexpr double LEAST_EXPONENT = -708.0;  // exp(-708) = 3e-308: below it the result is zero, never subnormal
constexpr double WHOLE = 6755399441055744.0;  // 1.5 · 2^52: added to a number, it leaves rint in the lowest bits
constexpr int TERMS = 14;
constexpr double INVERSE_FACTORIAL[TERMS] = {1.0,           1.0,           1.0 / 2,        1.0 / 6,       1.0 / 24,
                                             1.0 / 120,     1.0 / 720,     1.0 / 5040,     1.0 / 40320,   1.0 / 362880,
                                             1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};

// e^x for x <= 709 in each lane, to within one rounding; zero below -708, not a number where x is none.
template <int N>
INLINE Vec<N> exp(const Vec<N>& x) {
  using A = typename Vec<N>::Register;
  const Vec<N> lowest = splat<N>(LEAST_EXPONENT), whole = splat<N>(WHOLE);
  const Vec<N> clamped = where_greater(lowest, x, lowest, x);
  const Vec<N> shifted = fma(clamped, splat<N>(PER_LN2), whole);
  const Vec<N> k = shifted - whole;
  Vec<N> r = fma(k, splat<N>(-LN2_HIGH), clamped);
  r = fma(k, splat<N>(-LN2_LOW), r);
  Vec<N> series = splat<N>(INVERSE_FACTORIAL[TERMS - 1]);
  each(std::make_integer_sequence<int, TERMS - 1>{},
       [&](auto n) INLINE_LAMBDA { series = fma(r, series, splat<N>(INVERSE_FACTORIAL[TERMS - 2 - n])); });
  const Vec<N> power = Vec<N>::of([&](auto n) INLINE_LAMBDA { return A::power(shifted.reg[n]); });
  return where_greater(lowest, x, splat<N>(0.0), series * power);
}

// e^x, infinite above 709.78.
inline double exp(double x) {
  if (x > 709.0) {
    if (x > 710.0) return INFINITE;
    const double half = exp(0.5 * x);
    return half * half;
  }
  return exp(Vec<1>{{x}}).reg[0];
}

// log(x) = k ln 2 + log(1 + f) with 1/√2 <= 1 + f < √2; with s = f / (2 + f), log(1 + f) = 2 atanh(s), whose series
// s^3/3 + s^5/5 + … to s^21 leaves 2e-17. It is added to f - f²/2 as in f - (f²/2 - s (f²/2 + series)), so that what is
// rounded is small. -inf at 0, not a number below.
inline double log(double x) {
  if (!(x > 0.0 && x < INFINITE)) return x == 0.0 ? -INFINITE : (x > 0.0 ? x : NOT_A_NUMBER);
  double k = 0.0;
  if (x < 2.2250738585072014e-308) {  // subnormal
    x *= 0x1p54;
    k = -54.0;
  }
  const uint64_t bits = bits_as<uint64_t>(x);
  const uint64_t half = bits + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD);  // so that 1/√2 begins a power of two
  k += double(int64_t(half >> 52) - 1023);
  const double f = bits_as<double>((half & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0;
  const double s = f / (2.0 + f), z = s * s;
  double series = 0.0;
  for (int n = 21; n >= 3; n -= 2) series = Reg<1>::fma(series, z, 2.0 / n);
  series *= z;
  const double square = 0.5 * f * f;
  return k * LN2_HIGH - ((square - Reg<1>::fma(s, square + series, k * LN2_LOW)) - f);
}

// log(1 + x): that of u = 1 + x, and what u lost of x.
inline double log1p(double x) {
  const double u = 1.0 + x;
  if (u == 1.0 || !(u > 0.0 && u < INFINITE)) return u == 1.0 ? x : log(u);
  const double lost = u < 2.0 && u > 0.5 ? x - (u - 1.0) : (u > 1.0 ? 1.0 - (u - x) : x - (u - 1.0));
  return log(u) + lost / u;
}

}  // namespace core
