// A reader of JSON, for tokenizer.json: the values of a document as a tree in one array.

#pragma once

#include "tokenizer.h"

namespace fb::text {

struct Json {
    enum Kind : uint8_t { Null, Bool, Number, String, Array, Object };
    struct Node {
        Kind kind;
        double number;               // also 1 for true
        int64_t text, size;          // of a string, in `bytes`
        int64_t name, name_size;     // within an object
        int32_t child = -1, next = -1;
    };

    Buffer<Node> nodes;
    Buffer<uint8_t> bytes;
    const uint8_t *at = nullptr, *end = nullptr;

    bool parse(const uint8_t* text, int64_t size) noexcept {
        at = text;
        end = text + size;
        const int32_t root = value(0);
        blank();
        return root == 0 && at == end && !nodes.failed() && !bytes.failed();
    }
    bool is(int64_t text, int64_t size, const char* word) const noexcept {
        return size == int64_t(strlen(word)) && memcmp(bytes.data() + text, word, size_t(size)) == 0;
    }
    bool says(int32_t node, const char* word) const noexcept {
        return node >= 0 && nodes[node].kind == String && is(nodes[node].text, nodes[node].size, word);
    }
    // The member of an object, -1 if there is none.
    int32_t get(int32_t node, const char* name) const noexcept {
        if (node < 0 || nodes[node].kind != Object) return -1;
        for (int32_t child = nodes[node].child; child >= 0; child = nodes[child].next)
            if (is(nodes[child].name, nodes[child].name_size, name)) return child;
        return -1;
    }
    bool truth(int32_t node) const noexcept { return node >= 0 && nodes[node].kind == Bool && nodes[node].number != 0; }

  private:
    void blank() noexcept {
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) ++at;
    }
    bool take(char wanted) noexcept {
        blank();
        return at < end && *at == uint8_t(wanted) ? ++at, true : false;
    }
    bool word(const char* text) noexcept {
        const int64_t size = int64_t(strlen(text));
        if (end - at < size || memcmp(at, text, size_t(size)) != 0) return false;
        at += size;
        return true;
    }
    int32_t add(Kind kind) noexcept {
        nodes.push(Node{kind, 0, 0, 0, 0, 0, -1, -1});
        return nodes.failed() ? -1 : int32_t(nodes.size() - 1);
    }
    int32_t value(int depth) noexcept {
        blank();
        if (at == end || depth > 64) return -1;
        if (*at == '{' || *at == '[') return members(depth, *at++ == '{');
        if (*at == '"') {
            const int32_t node = add(String);
            const int64_t begin = bytes.size();
            if (node < 0 || !string()) return -1;
            nodes[node].text = begin;
            nodes[node].size = bytes.size() - begin;
            return node;
        }
        if (word("null")) return add(Null);
        const bool yes = word("true");
        if (yes || word("false")) {
            const int32_t node = add(Bool);
            if (node >= 0) nodes[node].number = yes;
            return node;
        }
        return number();
    }
    int32_t members(int depth, bool object) noexcept {
        const int32_t node = add(object ? Object : Array);
        const char close = object ? '}' : ']';
        if (node < 0) return -1;
        if (take(close)) return node;
        for (int32_t last = -1;;) {
            const int64_t name = bytes.size();
            blank();
            if (object && !(at < end && *at == '"' && string() && take(':'))) return -1;
            const int64_t name_size = bytes.size() - name;
            const int32_t child = value(depth + 1);
            if (child < 0) return -1;
            nodes[child].name = name;
            nodes[child].name_size = name_size;
            (last < 0 ? nodes[node].child : nodes[last].next) = child;
            last = child;
            if (take(close)) return node;
            if (!take(',')) return -1;
        }
    }
    int32_t number() noexcept {
        char text[32];
        size_t size = 0;
        while (at < end && size + 1 < sizeof text && (strchr("+-.eE", *at) ? *at != 0 : *at >= '0' && *at <= '9'))
            text[size++] = char(*at++);
        text[size] = 0;
        char* stop = nullptr;
        const double number = strtod(text, &stop);
        if (!size || *stop) return -1;
        const int32_t node = add(Number);
        if (node >= 0) nodes[node].number = number;
        return node;
    }
    bool hexadecimal(uint32_t& unit) noexcept {
        if (end - at < 4) return false;
        unit = 0;
        for (int i = 0; i < 4; ++i, ++at) {
            const int digit = *at >= '0' && *at <= '9'   ? *at - '0'
                              : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
                              : *at >= 'A' && *at <= 'F' ? *at - 'A' + 10
                                                         : -1;
            if (digit < 0) return false;
            unit = unit << 4 | uint32_t(digit);
        }
        return true;
    }
    bool escape() noexcept {
        if (at == end) return false;
        const char letter = char(*at++);
        if (letter != 'u') {
            const char *from = "\"\\/bfnrt", *to = "\"\\/\b\f\n\r\t", *found = letter ? strchr(from, letter) : nullptr;
            if (found) bytes.push(uint8_t(to[found - from]));
            return found != nullptr;
        }
        uint32_t point, low_unit;
        if (!hexadecimal(point)) return false;
        if (point >= 0xD800 && point < 0xDC00) {
            if (!word("\\u") || !hexadecimal(low_unit) || low_unit < 0xDC00 || low_unit > 0xDFFF) return false;
            point = 0x10000 + ((point - 0xD800) << 10) + (low_unit - 0xDC00);
        } else if (point >= 0xDC00 && point < 0xE000) {
            return false;
        }
        uint8_t out[4];
        const int size = encode(point, out);
        for (int i = 0; i < size; ++i) bytes.push(out[i]);
        return true;
    }
    bool string() noexcept {
        for (++at; at < end; ) {
            const uint8_t byte = *at++;
            if (byte == '"') return !bytes.failed();
            if (byte < 0x20) return false;
            if (byte != '\\') {
                bytes.push(byte);
            } else if (!escape()) {
                return false;
            }
        }
        return false;
    }
};

}  // namespace fb::text
