// The best path of a CTC lattice through given labels (Graves 2006, section 4.1, with maxima in place of sums).
//
// States 0, 2, 4, ... are blank, state 2 i + 1 is label i. A step stays, moves on by one, or skips a blank between two
// different labels: 2 bits per frame and state. When all steps would not fit, scores are kept at the begin of each
// stretch of frames alone, and the steps of a stretch are computed again on the way back.

#include <flambeau/kernel.h>

#include <cmath>
#include <limits>
#include <new>

namespace {

template <typename T>
class Array {
  public:
    explicit Array(int64_t count) noexcept : data_(new (std::nothrow) T[size_t(count > 0 ? count : 1)]) {}
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { delete[] data_; }
    explicit operator bool() const noexcept { return data_ != nullptr; }
    operator T*() const noexcept { return data_; }

  private:
    T* data_;
};

// best[i] of the three ways into each state, plus the emission. Written so that it becomes vector code.
template <typename T>
FB_INLINE void step(const T* from, const T* skip, const T* emission, T* to, uint8_t* moves, int64_t begin,
                    int64_t end) noexcept {
    for (int64_t i = begin; i < end; ++i) {
        const T stay = from[i], one = from[i - 1], two = from[i - 2] + skip[i];
        const T near = one > stay ? one : stay;
        const uint8_t near_move = one > stay ? 1 : 0;
        moves[i] = two > near ? 2 : near_move;
        to[i] = (two > near ? two : near) + emission[i];
    }
}
FB_CLONES void step_of(const float* from, const float* skip, const float* emission, float* to, uint8_t* moves,
                       int64_t begin, int64_t end) noexcept {
    step(from, skip, emission, to, moves, begin, end);
}
FB_CLONES void step_of(const double* from, const double* skip, const double* emission, double* to, uint8_t* moves,
                       int64_t begin, int64_t end) noexcept {
    step(from, skip, emission, to, moves, begin, end);
}

template <typename T>
class Aligner {
  public:
    Aligner(const T* log_probs, int64_t classes, int64_t frames, const int32_t* targets, int64_t labels,
            int32_t blank) noexcept
        : log_probs_(log_probs), targets_(targets), classes_(classes), frames_(frames), labels_(labels),
          states_(2 * labels + 1), row_((states_ + 3) / 4), blank_(blank), skip_(states_), emission_(states_),
          first_(states_ + 2), second_(states_ + 2), moves_(states_) {}

    bool ready() const noexcept { return skip_ && emission_ && first_ && second_ && moves_; }

    // Writes the class of each frame; false when there is no memory.
    bool align(int32_t* path, int64_t most_bytes) noexcept {
        prepare();
        const bool whole = frames_ * row_ <= most_bytes;
        // The length of a stretch that makes stored scores and stored steps equally large.
        const int64_t balance = int64_t(std::sqrt(double(frames_) * 4 * sizeof(T))) + 1;
        const int64_t stretch = whole || balance > frames_ ? frames_ : balance;
        const int64_t stretches = (frames_ + stretch - 1) / stretch;
        const Array<uint8_t> steps(stretch * row_);
        const Array<T> begins(stretches > 1 ? stretches * states_ : 0);
        if (!steps || !begins) return false;
        if (stretches > 1) {
            for (int64_t t = 0; t < frames_; ++t) {
                if (t % stretch == 0) keep(begins + t / stretch * states_);
                advance(t, nullptr);
            }
        }
        int64_t state = -1;
        for (int64_t s = stretches; s-- > 0;) {
            const int64_t begin = s * stretch, end = begin + stretch < frames_ ? begin + stretch : frames_;
            if (stretches > 1) restore(begins + s * states_);
            for (int64_t t = begin; t < end; ++t) advance(t, steps + (t - begin) * row_);
            if (state < 0) state = last();
            for (int64_t t = end; t-- > begin;) {
                path[t] = state % 2 ? targets_[state / 2] : blank_;
                state -= steps[(t - begin) * row_ + state / 4] >> (2 * (state % 4)) & 3;
            }
        }
        return true;
    }

  private:
    static constexpr T kNever = -std::numeric_limits<T>::infinity();

    // Scores before a frame; two places that are never reached lie before the first state.
    T* now() noexcept { return first_ + 2; }
    T* next() noexcept { return second_ + 2; }

    void prepare() noexcept {
        for (int64_t i = 0; i < states_; ++i)
            skip_[i] = i % 2 && i > 1 && targets_[i / 2] != targets_[i / 2 - 1] ? T(0) : kNever;
        for (int64_t i = 0; i < states_ + 2; ++i) first_[i] = second_[i] = kNever;
        flipped_ = false;
    }

    // Which of both arrays holds the scores alternates.
    T* current() noexcept { return flipped_ ? next() : now(); }
    T* other() noexcept { return flipped_ ? now() : next(); }

    void keep(T* to) noexcept {
        for (int64_t i = 0; i < states_; ++i) to[i] = current()[i];
    }
    void restore(const T* from) noexcept {
        for (int64_t i = 0; i < states_; ++i) current()[i] = from[i], other()[i] = kNever;
    }

    void advance(int64_t t, uint8_t* steps) noexcept {
        const T* row = log_probs_ + t * classes_;
        // What cannot be reached from the begin, or cannot reach the end, is left out.
        const int64_t ahead = states_ - 2 * (frames_ - t), reach = 2 * (t + 1);
        const int64_t begin = ahead > 0 ? ahead : 0, end = reach < states_ ? reach : states_;
        T* to = other();
        if (t == 0) {
            to[0] = row[blank_];
            if (states_ > 1) to[1] = row[targets_[0]];
            for (int64_t i = 0; i < states_; ++i) moves_[i] = 0;
        } else {
            for (int64_t i = begin; i < end; ++i) emission_[i] = row[i % 2 ? targets_[i / 2] : blank_];
            step_of(current(), skip_, emission_, to, moves_, begin, end);
        }
        flipped_ = !flipped_;
        if (!steps) return;
        for (int64_t byte = begin / 4; byte * 4 < end; ++byte) {
            uint8_t packed = 0;
            for (int64_t k = 0; k < 4 && byte * 4 + k < states_; ++k) packed |= uint8_t(moves_[byte * 4 + k] << (2 * k));
            steps[byte] = packed;
        }
    }

    int64_t last() noexcept {
        if (labels_ == 0) return 0;
        return current()[states_ - 1] > current()[states_ - 2] ? states_ - 1 : states_ - 2;
    }

    const T* log_probs_;
    const int32_t* targets_;
    int64_t classes_, frames_, labels_, states_, row_;
    int32_t blank_;
    Array<T> skip_, emission_, first_, second_;
    Array<uint8_t> moves_;
    bool flipped_ = false;
};

template <typename T>
int64_t run(const T* log_probs, const int32_t* targets, const int64_t* frames_of, const int64_t* labels_of,
            int32_t* paths, int64_t items, int64_t frames, int64_t classes, int64_t labels, int64_t blank,
            int64_t most_bytes, int32_t nthreads) noexcept {
    int32_t starved = 0;
    fb::parallel_for(0, items, 1, nthreads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t n = begin; n < end; ++n) {
            int32_t* path = paths + n * frames;
            Aligner<T> aligner(log_probs + n * frames * classes, classes, frames_of[n], targets + n * labels,
                               labels_of[n], int32_t(blank));
            if (!aligner.ready() || !aligner.align(path, most_bytes)) starved = 1;
            for (int64_t t = frames_of[n]; t < frames; ++t) path[t] = int32_t(blank);
        }
    });
    return starved ? -1 : 0;
}

}  // namespace

// int64_t fb_forced_align_<dtype>(log_probs, targets, frames_of, labels_of, paths, items, frames, classes, labels, blank,
//                                 most_bytes, nthreads)
//
// log_probs            items x frames x classes
// targets              items x labels
// frames_of, labels_of items; a path must exist: frames >= labels + repeated labels
// paths                items x frames, written; blank beyond an item's frames
// most_bytes           that the steps of one item may take
// returns              0, or -1 when there is no memory
FB_EXPORT int64_t fb_forced_align_f32(const float* log_probs, const int32_t* targets, const int64_t* frames_of,
                                      const int64_t* labels_of, int32_t* paths, int64_t items, int64_t frames,
                                      int64_t classes, int64_t labels, int64_t blank, int64_t most_bytes,
                                      int32_t nthreads) noexcept {
    return run(log_probs, targets, frames_of, labels_of, paths, items, frames, classes, labels, blank, most_bytes,
               nthreads);
}
FB_EXPORT int64_t fb_forced_align_f64(const double* log_probs, const int32_t* targets, const int64_t* frames_of,
                                      const int64_t* labels_of, int32_t* paths, int64_t items, int64_t frames,
                                      int64_t classes, int64_t labels, int64_t blank, int64_t most_bytes,
                                      int32_t nthreads) noexcept {
    return run(log_probs, targets, frames_of, labels_of, paths, items, frames, classes, labels, blank, most_bytes,
               nthreads);
}

namespace {

long long number(int64_t value) noexcept { return static_cast<long long>(value); }

// The same sentences as `_check` in `flambeau/audio/functional/forced_align.py`.
bool valid(fb::Call& call, const fb::Tensor& log_probs, const fb::Tensor& targets, const fb::Tensor& frames_of,
           const fb::Tensor& labels_of, int64_t blank) noexcept {
    const int64_t items = log_probs.dim ? log_probs.sizes[0] : 0;
    if (log_probs.dim != 3)
        call.fail("forced_align: log_probs has shape %s, expected (batch, time, classes).", fb::Shape(log_probs).text);
    else if (log_probs.dtype != fb::DType::Float32 && log_probs.dtype != fb::DType::Float64)
        call.fail("forced_align: log_probs has dtype %s, expected float32 or float64; convert it.",
                  fb::name(log_probs.dtype));
    else if (targets.dim != 2 || targets.sizes[0] != items || targets.dtype != fb::DType::Int32)
        call.fail("forced_align: targets has shape %s and dtype %s, expected (%lld, length) of int32.",
                  fb::Shape(targets).text, fb::name(targets.dtype), number(items));
    else if (frames_of.dim != 1 || labels_of.dim != 1 || frames_of.sizes[0] != items || labels_of.sizes[0] != items ||
             frames_of.dtype != fb::DType::Int64 || labels_of.dtype != fb::DType::Int64)
        call.fail("forced_align: lengths have shapes %s and %s, expected (%lld,) of int64 both.",
                  fb::Shape(frames_of).text, fb::Shape(labels_of).text, number(items));
    else if (blank < 0 || blank >= log_probs.sizes[2])
        call.fail("forced_align: blank is class %lld of %lld.", number(blank), number(log_probs.sizes[2]));
    else
        return true;
    return false;
}

// The same sentences as `_check_values`.
bool valid_values(fb::Call& call, const fb::Tensor& log_probs, const fb::Tensor& targets, const fb::Tensor& frames_of,
                  const fb::Tensor& labels_of, int64_t blank) noexcept {
    const int64_t items = log_probs.sizes[0], frames = log_probs.sizes[1], classes = log_probs.sizes[2];
    const int64_t width = targets.sizes[1];
    int64_t longest = 0, most = 0;
    for (int64_t n = 0; n < items; ++n) {
        longest = frames_of.as<int64_t>()[n] > longest ? frames_of.as<int64_t>()[n] : longest;
        most = labels_of.as<int64_t>()[n] > most ? labels_of.as<int64_t>()[n] : most;
    }
    if (items && longest != frames) {
        call.fail("forced_align: input length mismatch: the longest of input_lengths is %lld, log_probs has %lld "
                  "frames.",
                  number(longest), number(frames));
        return false;
    }
    if (items && most != width) {
        call.fail("forced_align: target length mismatch: the longest of target_lengths is %lld, targets has %lld "
                  "labels.",
                  number(most), number(width));
        return false;
    }
    for (int64_t n = 0; n < items; ++n) {
        const int64_t size = frames_of.as<int64_t>()[n], labels = labels_of.as<int64_t>()[n];
        const int32_t* row = targets.as<int32_t>() + n * width;
        if (size < 1 || labels < 0) {
            call.fail("forced_align: item %lld has %lld frames and %lld labels, expected at least 1 and 0.",
                      number(n), number(size), number(labels));
            return false;
        }
        int64_t repeats = 0;
        for (int64_t i = 0; i < labels; ++i) {
            if (row[i] == blank || row[i] < 0 || row[i] >= classes) {
                call.fail("forced_align: targets holds class %d, expected 0 to %lld without blank, %lld.",
                          int(row[i]), number(classes - 1), number(blank));
                return false;
            }
            repeats += i > 0 && row[i] == row[i - 1];
        }
        if (size < labels + repeats) {
            call.fail("forced_align: targets length is too long for CTC: item %lld has %lld frames for %lld labels "
                      "and %lld repetitions.",
                      number(n), number(size), number(labels), number(repeats));
            return false;
        }
    }
    return true;
}

void forced_align(fb::Call& call, const fb::Tensor& log_probs, const fb::Tensor& targets,
                  const fb::Tensor& input_lengths, const fb::Tensor& target_lengths, int64_t blank,
                  int64_t most_bytes) noexcept {
    if (!valid(call, log_probs, targets, input_lengths, target_lengths, blank)) return;
    const fb::Tensor scores = call.contiguous(log_probs), labels = call.contiguous(targets);
    const fb::Tensor frames_of = call.contiguous(input_lengths), labels_of = call.contiguous(target_lengths);
    fb::Tensor paths = call.empty(fb::DType::Int32, log_probs.sizes, 2);
    if (!scores.defined() || !labels.defined() || !frames_of.defined() || !labels_of.defined() || !paths.defined())
        return;
    if (!valid_values(call, scores, labels, frames_of, labels_of, blank)) return;
    const int64_t items = scores.sizes[0], frames = scores.sizes[1], classes = scores.sizes[2], width = labels.sizes[1];
    const int32_t nthreads = fb::threads(items * frames * (2 * width + 1));
    const int64_t status =
        scores.dtype == fb::DType::Float32
            ? fb_forced_align_f32(scores.as<float>(), labels.as<int32_t>(), frames_of.as<int64_t>(),
                                  labels_of.as<int64_t>(), paths.as<int32_t>(), items, frames, classes, width, blank,
                                  most_bytes, nthreads)
            : fb_forced_align_f64(scores.as<double>(), labels.as<int32_t>(), frames_of.as<int64_t>(),
                                  labels_of.as<int64_t>(), paths.as<int32_t>(), items, frames, classes, width, blank,
                                  most_bytes, nthreads);
    if (status < 0) return call.fail("forced_align: no memory left for %lld frames.", number(frames));
    call.give(paths);
}

FB_OPERATOR("forced_align", forced_align);

}  // namespace
