/* Tokenizes the lines of standard input, without Python:
 *
 *     folder=$(dirname "$(python -c 'import flambeau.text; print(flambeau.text.cmake_dir())')")
 *     cc tokenize.c -I "$folder/include" -L "$folder" -lflambeau_text -Wl,-rpath,"$folder" -o tokenize
 *     ./tokenize tokenizer.json < lines.txt
 *
 * (or by CMakeLists.txt beside this file) prints the ids of each line, and the text that they stand for.
 */

#include <flambeau/text.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 1 << 16 };

int main(int count, char** arguments) {
    static char line[LONGEST], text[4 * LONGEST];
    static int32_t ids[2 * LONGEST];
    if (count != 2) {
        fprintf(stderr, "usage: %s tokenizer.json < lines\n", arguments[0]);
        return 2;
    }
    fl_tok* tokenizer = fl_tok_open(arguments[1]);
    if (!tokenizer) {
        fprintf(stderr, "%s: %s\n", arguments[1], fl_tok_error());
        return 1;
    }
    int status = 0;
    while (fgets(line, sizeof line, stdin)) {
        int64_t offsets[2] = {0, (int64_t)strcspn(line, "\n")}, rows[2];
        const int64_t size = fl_tok_encode_batch(tokenizer, line, offsets, 1, ids, 2 * LONGEST, rows);
        if (size < 0) {
            fprintf(stderr, "a line cannot be tokenized (%lld)\n", (long long)size);
            status = 1;
            continue;
        }
        for (int64_t i = 0; i < size; ++i) printf(i ? " %d" : "%d", (int)ids[i]);
        const int64_t length = fl_tok_decode(tokenizer, ids, size, text, sizeof text);
        printf("\t%.*s\n", length < 0 ? 0 : (int)(length < (int64_t)sizeof text ? length : (int64_t)sizeof text), text);
    }
    fl_tok_close(tokenizer);
    return status;
}
