/* Tokenizers without Python: reads what `to_tokenizer_json` of flambeau.text.transforms wrote.
 *
 *     fl_tok* tokenizer = fl_tok_open("tokenizer.json");
 *     if (!tokenizer) { fputs(fl_tok_error(), stderr); ... }
 *     int64_t offsets[] = {0, 5, 11};
 *     int64_t rows[3];
 *     int32_t ids[2 * 11];
 *     int64_t count = fl_tok_encode_batch(tokenizer, "helloworld!", offsets, 2, ids, 2 * 11, rows);
 *     fl_tok_close(tokenizer);
 *
 * Byte pairs as GPT-2 and CLIP have them, pairs of characters, and word pieces as BERT has them. A tokenizer may be used
 * by many threads at a time.
 */

#ifndef FLAMBEAU_TEXT_H
#define FLAMBEAU_TEXT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fl_tok fl_tok;

/* The tokenizer of a file, or NULL; then `fl_tok_error` says why. */
fl_tok* fl_tok_open(const char* path);

/* Why the last `fl_tok_open` of this thread failed; empty if it did not. */
const char* fl_tok_error(void);

/* Ids of `count` texts, end to end in `text`: text i is the bytes from offsets[i] on up to offsets[i + 1], and
 * offsets[0] is 0. `ids` has room for `room` ids, at least twice as many as there are bytes; those of text i are from
 * rows[i] on up to rows[i + 1], so that `rows` has count + 1 places.
 *
 * Returns the number of ids; -1 when memory ran out; -2 when there is too little room; -3 when a text is not UTF-8. An
 * id of -1 stands for what the vocabulary lacks. */
int64_t fl_tok_encode_batch(fl_tok* tokenizer, const char* text, const int64_t* offsets, int64_t count, int32_t* ids,
                            int64_t room, int64_t* rows);

/* The text of some ids, without a terminating zero: the number of its bytes, of which at most `room` are written; -4
 * when an id is not in the vocabulary. */
int64_t fl_tok_decode(const fl_tok* tokenizer, const int32_t* ids, int64_t count, char* text, int64_t room);

void fl_tok_close(fl_tok* tokenizer);

#ifdef __cplusplus
}
#endif

#endif
