// For the dispatcher: calls of poolings that give two tensors, the pooled maps and what their gradient needs.

#pragma once

#include "regions.h"

namespace vision {

// The channels of position-sensitive maps that one pooled channel reads.
inline bool divides(fb::Call& call, const char* op, int64_t channels, int64_t bins_high, int64_t bins_wide) noexcept {
    if (channels % (bins_high * bins_wide) == 0) return true;
    call.fail("%s: input has %lld channels, expected a multiple of %lld x %lld bins.", op,
              static_cast<long long>(channels), static_cast<long long>(bins_high), static_cast<long long>(bins_wide));
    return false;
}

// Arguments made ready, and room for the results.
struct Pooling {
    fb::Tensor boxes, maps, pooled, extra;
    fb_regions regions{};
    bool ready = false;

    void settle(fb::Call& call, const char* op, int64_t status, bool forward) noexcept {
        if (!settled(call, op, regions, status)) return;
        call.give(forward ? pooled : maps);
        if (forward) call.give(extra);
    }
};

// (input, rois) -> (pooled, extra). `divided`: position-sensitive.
inline Pooling pooling(fb::Call& call, const char* op, const fb::Tensor& input, const fb::Tensor& rois,
                       int64_t bins_high, int64_t bins_wide, double scale, int64_t sampling_ratio,
                       bool divided) noexcept {
    if (!valid_regions(call, op, "input", input, rois, bins_high, bins_wide) ||
        (divided && !divides(call, op, input.sizes[1], bins_high, bins_wide)))
        return {};
    const bool last = channels_last(input);
    const int64_t channels = divided ? input.sizes[1] / (bins_high * bins_wide) : input.sizes[1];
    Pooling p{call.contiguous(rois), last ? call.borrow(input) : call.contiguous(input),
              empty_maps(call, input.dtype, rois.sizes[0], channels, bins_high, bins_wide, last),
              empty_maps(call, fb::DType::Int32, rois.sizes[0], channels, bins_high, bins_wide, last)};
    p.ready = p.boxes.defined() && p.maps.defined() && p.pooled.defined() && p.extra.defined();
    if (p.ready)
        p.regions = describe(p.boxes, input.sizes[0], input.sizes[1], input.sizes[2], input.sizes[3], bins_high,
                             bins_wide, scale, sampling_ratio, true, last, last);
    return p;
}

// (grad, rois, extra) -> gradient of maps, in the layout of `grad`.
inline Pooling pooling_backward(fb::Call& call, const char* op, const fb::Tensor& grad, const fb::Tensor& rois,
                                const fb::Tensor& extra, int64_t bins_high, int64_t bins_wide, double scale,
                                int64_t sampling_ratio, const int64_t (&sizes)[4], bool divided) noexcept {
    if (!valid_regions(call, op, "grad", grad, rois, bins_high, bins_wide) ||
        (divided && !divides(call, op, sizes[1], bins_high, bins_wide)))
        return {};
    const int64_t channels = divided ? sizes[1] / (bins_high * bins_wide) : sizes[1];
    if (!valid_grad(call, op, grad, {rois.sizes[0], channels, bins_high, bins_wide})) return {};
    if (extra.dim != 4 || extra.dtype != fb::DType::Int32 || extra.numel() != grad.numel()) {
        call.fail("%s: the second result of the forward pass has shape %s and dtype %s, expected %s and torch.int32.",
                  op, fb::Shape(extra).text, fb::name(extra.dtype), fb::Shape(grad).text);
        return {};
    }
    const bool last = channels_last(grad), both = last && channels_last(extra);
    Pooling p{call.contiguous(rois), empty_maps(call, grad.dtype, sizes[0], sizes[1], sizes[2], sizes[3], last),
              both ? call.borrow(grad) : call.contiguous(grad), both ? call.borrow(extra) : call.contiguous(extra)};
    p.ready = p.boxes.defined() && p.maps.defined() && p.pooled.defined() && p.extra.defined();
    if (p.ready)
        p.regions = describe(p.boxes, sizes[0], sizes[1], sizes[2], sizes[3], bins_high, bins_wide, scale,
                             sampling_ratio, true, last, both);
    return p;
}

}  // namespace vision
