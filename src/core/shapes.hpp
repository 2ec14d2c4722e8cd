// The width of a row of labels, known when a kernel is compiled.
//
// A row is worked on in tiles, all of one in registers at once: one loop over the attributes or the labels then feeds
// several sums that do not wait for one another. Up to 64 columns are one tile; four columns are half a vector. Wider
// rows have several tiles of 40 to 64 columns.
#pragma once

#include "arrays.hpp"
#include "simd.hpp"

namespace core {

template <int C>
struct OneTile {
  static constexpr int columns = C;
  static constexpr bool tiled = false;
  static constexpr Int width = C;
};

template <int C>
struct Tiles {
  static constexpr int columns = C;
  static constexpr bool tiled = true;
  Int width;
};

// Call a kernel with the shape of a row; the width is one that `chainfold.core.slots.padded` gives.
template <class Kernel>
inline auto with_shape(Int width, Kernel kernel) {
#ifdef CORE_FEW_WIDTHS  // the portable level, whose registers are too few for wide tiles; tests that compile in seconds
  if (width == 4) return kernel(OneTile<4>{});
  if (width == 8) return kernel(OneTile<8>{});
  return kernel(Tiles<8>{width});
#else
  switch (width) {
    case 4: return kernel(OneTile<4>{});
    case 8: return kernel(OneTile<8>{});
    case 16: return kernel(OneTile<16>{});
    case 24: return kernel(OneTile<24>{});
    case 32: return kernel(OneTile<32>{});
    case 40: return kernel(OneTile<40>{});
    case 48: return kernel(OneTile<48>{});
    case 56: return kernel(OneTile<56>{});
    case 64: return kernel(OneTile<64>{});
    default: break;
  }
  if (width % 64 == 0) return kernel(Tiles<64>{width});
  if (width % 56 == 0) return kernel(Tiles<56>{width});
  if (width % 48 == 0) return kernel(Tiles<48>{width});
  return kernel(Tiles<40>{width});
#endif
}

}  // namespace core
