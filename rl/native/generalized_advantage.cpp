// Generalized advantage estimates and the returns that belong to them, in one pass from the last step to the first.
//
// Tensors are (rows, steps, inner), contiguous; done and terminated are bytes that are 0 or 1.

#include <flambeau/kernel.h>

namespace rl {
namespace {

template <typename T>
struct Trajectories {
    const T *reward, *value, *next_value;
    const uint8_t *done, *terminated;
    T *advantage, *target;
    int64_t steps, inner;
    T gamma, decay;  // decay = gamma * lambda
};

// All places of one row; `carry` is the advantage of the step after.
template <typename T>
void estimate(const Trajectories<T>& all, int64_t row) noexcept {
    const int64_t inner = all.inner, begin = row * all.steps * inner;
    for (int64_t place = 0; place < inner; ++place) {
        T carry = 0;
        for (int64_t i = begin + (all.steps - 1) * inner + place; i >= begin; i -= inner) {
            const T bootstrap = all.terminated[i] ? T(0) : all.gamma * all.next_value[i];
            const T delta = all.reward[i] + bootstrap - all.value[i];
            carry = all.done[i] ? delta : delta + all.decay * carry;
            all.advantage[i] = carry;
            all.target[i] = carry + all.value[i];
        }
    }
}

template <typename T>
void estimate_all(const fb::Tensor* in, const fb::Tensor& advantage, const fb::Tensor& target, double gamma,
                  double decay) noexcept {
    const int64_t rows = in[0].sizes[0], steps = in[0].sizes[1], inner = in[0].sizes[2];
    const Trajectories<T> all{in[0].as<T>(),       in[1].as<T>(),       in[2].as<T>(),      in[3].as<uint8_t>(),
                              in[4].as<uint8_t>(), advantage.as<T>(),   target.as<T>(),     steps,
                              inner,               T(gamma),            T(decay)};
    const int64_t grain = fb::serial_below / (steps * inner) + 1;
    fb::parallel_for(0, rows, grain, fb::threads(in[0].numel()), [&](int64_t begin, int64_t end) noexcept {
        for (int64_t row = begin; row < end; ++row) estimate(all, row);
    });
}

void generalized_advantage(fb::Call& call, const fb::Tensor& reward, const fb::Tensor& value,
                           const fb::Tensor& next_value, const fb::Tensor& done, const fb::Tensor& terminated,
                           double gamma, double lmbda) noexcept {
    const fb::Tensor* given[] = {&reward, &value, &next_value, &done, &terminated};
    const char* names[] = {"reward", "value", "next_value", "done", "terminated"};
    if (reward.dim != 3)
        return call.fail("generalized_advantage: reward has shape %s, expected (rows, time, features).",
                         fb::Shape(reward).text);
    if (reward.dtype != fb::DType::Float32 && reward.dtype != fb::DType::Float64)
        return call.fail("generalized_advantage: reward has dtype %s, expected float32 or float64; convert it.",
                         fb::name(reward.dtype));
    for (int at = 1; at < 5; ++at) {
        bool same = given[at]->dim == 3;
        for (int64_t i = 0; same && i < 3; ++i) same = given[at]->sizes[i] == reward.sizes[i];
        if (!same)
            return call.fail("generalized_advantage: %s has shape %s, expected %s as the reward.", names[at],
                             fb::Shape(*given[at]).text, fb::Shape(reward).text);
        const fb::DType expected = at < 3 ? reward.dtype : fb::DType::Bool;
        if (given[at]->dtype != expected)
            return call.fail("generalized_advantage: %s has dtype %s, expected %s.", names[at],
                             fb::name(given[at]->dtype), fb::name(expected));
    }
    const fb::Tensor in[] = {call.contiguous(reward), call.contiguous(value), call.contiguous(next_value),
                             call.contiguous(done), call.contiguous(terminated)};
    for (const fb::Tensor& each : in)
        if (!each.defined()) return;
    fb::Tensor advantage = call.empty(reward.dtype, reward.sizes, 3), target = call.empty(reward.dtype, reward.sizes, 3);
    if (!advantage.defined() || !target.defined()) return;
    if (reward.numel() > 0) {
        if (reward.dtype == fb::DType::Float32)
            estimate_all<float>(in, advantage, target, gamma, gamma * lmbda);
        else
            estimate_all<double>(in, advantage, target, gamma, gamma * lmbda);
    }
    call.give(advantage);
    call.give(target);
}

FB_OPERATOR("generalized_advantage", generalized_advantage);

}  // namespace
}  // namespace rl
