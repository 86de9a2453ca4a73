// Threads that share a list of jobs.
//
// The caller takes jobs as well, and waits for jobs that others have begun, not for threads: one that a busy machine has
// not found time for yet costs nothing. torch's own pool waits for all of its threads, which is right for equal shares
// of a short loop; files differ, and decoding them often goes on beside everything else that a machine does. Threads
// live as long as there are jobs, so that a forked process has them as well.

#pragma once

#include <flambeau/kernel.h>

#if !defined(_WIN32)
#include <pthread.h>
#include <stdlib.h>

#include <atomic>
#include <new>
#endif

namespace fb::codecs {

#if defined(_WIN32)

template <typename Work>
void share_jobs(int64_t count, int32_t threads, const Work& work) noexcept {
    parallel_for(0, count, 1, threads, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i) work(i);
    });
}

#else

struct Team {
    void (*work)(const void* context, int64_t job) noexcept;
    const void* context;
    int64_t count;
    std::atomic<int64_t> next{0}, done{0};
    std::atomic<int32_t> members{1};  // the last one frees it
    pthread_mutex_t mutex;
    pthread_cond_t finished;

    void take_jobs() noexcept {
        for (int64_t job = next++; job < count; job = next++) {
            work(context, job);  // the caller still waits, so that `context` is there
            if (++done == count) {
                pthread_mutex_lock(&mutex);
                pthread_cond_signal(&finished);
                pthread_mutex_unlock(&mutex);
            }
        }
    }

    void wait() noexcept {
        pthread_mutex_lock(&mutex);
        while (done != count) pthread_cond_wait(&finished, &mutex);
        pthread_mutex_unlock(&mutex);
    }

    void leave() noexcept {
        if (--members > 0) return;
        pthread_cond_destroy(&finished);
        pthread_mutex_destroy(&mutex);
        free(this);
    }

    static void* help(void* team) {
        static_cast<Team*>(team)->take_jobs();
        static_cast<Team*>(team)->leave();
        return nullptr;
    }

    void hire(int32_t helpers) noexcept {
        pthread_attr_t detached;
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        for (; helpers > 0; --helpers) {
            pthread_t thread;
            ++members;
            if (pthread_create(&thread, &detached, help, this) != 0) {
                --members;
                break;
            }
        }
        pthread_attr_destroy(&detached);
    }
};

// Calls `work(job)` for each job from 0 to `count`, on at most so many threads.
template <typename Work>
void share_jobs(int64_t count, int32_t threads, const Work& work) noexcept {
    void* const memory = threads > 1 && count > 1 ? malloc(sizeof(Team)) : nullptr;
    if (!memory) {
        for (int64_t job = 0; job < count; ++job) work(job);
        return;
    }
    Team* const team = new (memory) Team();
    team->work = [](const void* context, int64_t job) noexcept { (*static_cast<const Work*>(context))(job); };
    team->context = &work;
    team->count = count;
    pthread_mutex_init(&team->mutex, nullptr);
    pthread_cond_init(&team->finished, nullptr);
    team->hire(count < threads ? int32_t(count) - 1 : threads - 1);
    team->take_jobs();
    team->wait();
    team->leave();
}

#endif

}  // namespace fb::codecs
