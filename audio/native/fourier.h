// Fourier transforms of eight real signals at a time: every lane of a vector holds another signal, so that no step
// moves values between lanes. A signal of n real samples is transformed as n / 2 complex ones.

#pragma once

#include <math.h>

#include <atomic>

#include "eight.h"

namespace fourier {

struct Number {
    float re, im;
};

// One complex number of each signal. Two samples of each, one after the other, lie in memory alike.
struct Lane {
    Eight re, im;
};

// Whether a signal of n samples can be transformed here: n is even, and n / 2 a product of 2, 3 and 5.
inline bool fits(int64_t n) noexcept {
    if (n < 2 || n % 2) return false;
    n /= 2;
    for (const int64_t factor : {2, 3, 5})
        while (n % factor == 0) n /= factor;
    return n == 1;
}

// exp(-2 pi i k / n) for k in [0, n). Those of the first lengths that are asked for are kept for good.
class Turns {
  public:
    explicit Turns(int64_t n) noexcept {
        for (std::atomic<const Table*>& place : known()) {
            const Table* table = place.load(std::memory_order_acquire);
            if (!table) {
                Table* made = make(n);
                if (!made || place.compare_exchange_strong(table, made, std::memory_order_acq_rel)) {
                    table_ = made;
                    return;
                }
                free(made);  // another thread was first, perhaps with another length: `table` is its
            }
            if (table->n == n) {
                table_ = table;
                return;
            }
        }
        table_ = owned_ = make(n);
    }
    Turns(const Turns&) = delete;
    ~Turns() { free(owned_); }

    explicit operator bool() const noexcept { return table_ != nullptr; }
    const Number* get() const noexcept { return table_->numbers; }

  private:
    struct Table {
        int64_t n;
        Number numbers[1];
    };
    static constexpr size_t places = 16;

    static std::atomic<const Table*> (&known() noexcept)[places] {
        static std::atomic<const Table*> tables[places];
        return tables;
    }
    static Table* make(int64_t n) noexcept {
        Table* table = static_cast<Table*>(malloc(sizeof(Table) + size_t(n) * sizeof(Number)));
        if (!table) return nullptr;
        table->n = n;
        const double step = -6.283185307179586476925286766559 / double(n);
        for (int64_t k = 0; k < n; ++k) {
            table->numbers[k].re = float(cos(step * double(k)));
            table->numbers[k].im = float(sin(step * double(k)));
        }
        return table;
    }

    const Table* table_ = nullptr;
    Table* owned_ = nullptr;
};

// y = (re, im) * w, in every lane.
FB_INLINE void put(Lane& y, const Eight& re, const Eight& im, Number w) noexcept {
    y.re = w.re * re - w.im * im;
    y.im = w.im * re + w.re * im;
}

template <int radix>
struct Butterfly;

template <>
struct Butterfly<2> {
    FB_INLINE static void apply(const Lane* const* x, Lane* const* y, const Number* w) noexcept {
        const Lane a = *x[0], b = *x[1];
        Lane &p = *y[0], &q = *y[1];
        const Eight re = a.re - b.re, im = a.im - b.im;
        p.re = a.re + b.re;
        p.im = a.im + b.im;
        put(q, re, im, w[1]);
    }
};

template <>
struct Butterfly<3> {
    FB_INLINE static void apply(const Lane* const* x, Lane* const* y, const Number* w) noexcept {
        constexpr float half_root = 0.86602540378443864676f;
        const Lane a = *x[0], b = *x[1], c = *x[2];
        Lane &p = *y[0], &q = *y[1], &r = *y[2];
        const Eight sum_re = b.re + c.re, sum_im = b.im + c.im;
        const Eight turn_re = half_root * (b.im - c.im), turn_im = half_root * (c.re - b.re);
        const Eight mid_re = a.re - 0.5f * sum_re, mid_im = a.im - 0.5f * sum_im;
        p.re = a.re + sum_re;
        p.im = a.im + sum_im;
        put(q, mid_re + turn_re, mid_im + turn_im, w[1]);
        put(r, mid_re - turn_re, mid_im - turn_im, w[2]);
    }
};

template <>
struct Butterfly<4> {
    FB_INLINE static void apply(const Lane* const* x, Lane* const* y, const Number* w) noexcept {
        const Lane a = *x[0], b = *x[1], c = *x[2], d = *x[3];
        Lane &p = *y[0], &q = *y[1], &r = *y[2], &s = *y[3];
        const Eight even_re = a.re + c.re, even_im = a.im + c.im;
        const Eight rest_re = a.re - c.re, rest_im = a.im - c.im;
        const Eight odd_re = b.re + d.re, odd_im = b.im + d.im;
        const Eight turn_re = b.im - d.im, turn_im = d.re - b.re;  // (b - d) / i
        p.re = even_re + odd_re;
        p.im = even_im + odd_im;
        put(q, rest_re + turn_re, rest_im + turn_im, w[1]);
        put(r, even_re - odd_re, even_im - odd_im, w[2]);
        put(s, rest_re - turn_re, rest_im - turn_im, w[3]);
    }
};

template <>
struct Butterfly<5> {
    FB_INLINE static void apply(const Lane* const* x, Lane* const* y, const Number* w) noexcept {
        constexpr float cos1 = 0.30901699437494742410f, cos2 = -0.80901699437494742410f;
        constexpr float sin1 = 0.95105651629515357212f, sin2 = 0.58778525229247312917f;
        const Lane a = *x[0], b = *x[1], c = *x[2], d = *x[3], e = *x[4];
        const Eight be_re = b.re + e.re, be_im = b.im + e.im;
        const Eight cd_re = c.re + d.re, cd_im = c.im + d.im;
        const Eight eb_re = b.im - e.im, eb_im = e.re - b.re;  // (b - e) / i
        const Eight dc_re = c.im - d.im, dc_im = d.re - c.re;
        const Eight one_re = a.re + cos1 * be_re + cos2 * cd_re, one_im = a.im + cos1 * be_im + cos2 * cd_im;
        const Eight two_re = a.re + cos2 * be_re + cos1 * cd_re, two_im = a.im + cos2 * be_im + cos1 * cd_im;
        const Eight near_re = sin1 * eb_re + sin2 * dc_re, near_im = sin1 * eb_im + sin2 * dc_im;
        const Eight far_re = sin2 * eb_re - sin1 * dc_re, far_im = sin2 * eb_im - sin1 * dc_im;
        y[0]->re = a.re + be_re + cd_re;
        y[0]->im = a.im + be_im + cd_im;
        put(*y[1], one_re + near_re, one_im + near_im, w[1]);
        put(*y[2], two_re + far_re, two_im + far_im, w[2]);
        put(*y[3], two_re - far_re, two_im - far_im, w[3]);
        put(*y[4], one_re - near_re, one_im - near_im, w[4]);
    }
};

// One pass of Stockham's transform: results come in order, so that nothing has to be sorted afterwards.
template <int radix>
FB_INLINE void pass(const Lane* x, Lane* y, int64_t count, int64_t stride, const Number* turns) noexcept {
    for (int64_t p = 0; p < count; ++p) {
        Number w[radix];
        for (int64_t j = 0; j < radix; ++j) w[j] = turns[2 * p * j * stride];
        for (int64_t q = 0; q < stride; ++q) {
            const Lane* from[radix];
            Lane* to[radix];
            for (int64_t j = 0; j < radix; ++j) {
                from[j] = x + q + stride * (p + count * j);
                to[j] = y + q + stride * (radix * p + j);
            }
            Butterfly<radix>::apply(from, to, w);
        }
    }
}

// Transforms `size` complex numbers of each signal, in `x`; `turns` are those of 2 * size. Returns where the result is:
// in `x` or in `other`, which is as large.
FB_INLINE Lane* transform(Lane* x, Lane* other, int64_t size, const Number* turns) noexcept {
    int64_t left = size, stride = 1;
    while (left > 1) {
        const int radix = left % 4 == 0 ? 4 : left % 2 == 0 ? 2 : left % 3 == 0 ? 3 : 5;
        const int64_t count = left / radix;
        if (radix == 4)
            pass<4>(x, other, count, stride, turns);
        else if (radix == 2)
            pass<2>(x, other, count, stride, turns);
        else if (radix == 3)
            pass<3>(x, other, count, stride, turns);
        else
            pass<5>(x, other, count, stride, turns);
        Lane* done = other;
        other = x;
        x = done;
        left = count;
        stride *= radix;
    }
    return x;
}

// Squared magnitudes of the n / 2 + 1 frequencies of each signal, from the transform of its n / 2 pairs of samples.
FB_INLINE void powers(const Lane* z, int64_t size, const Number* turns, Eight* y) noexcept {
    const Eight sum = z[0].re + z[0].im, difference = z[0].re - z[0].im;
    y[0] = sum * sum;
    y[size] = difference * difference;
    for (int64_t k = 1; 2 * k <= size; ++k) {
        const Lane a = z[k], b = z[size - k];
        const Number w = turns[k];
        const Eight even_re = a.re + b.re, even_im = a.im - b.im;
        const Eight odd_re = a.im + b.im, odd_im = b.re - a.re;
        const Eight turned_re = w.re * odd_re - w.im * odd_im, turned_im = w.im * odd_re + w.re * odd_im;
        const Eight up_re = even_re + turned_re, up_im = even_im + turned_im;
        const Eight down_re = even_re - turned_re, down_im = even_im - turned_im;
        y[k] = 0.25f * (up_re * up_re + up_im * up_im);
        y[size - k] = 0.25f * (down_re * down_re + down_im * down_im);
    }
}

}  // namespace fourier
