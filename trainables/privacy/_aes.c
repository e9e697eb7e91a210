/* AES-256-CTR (FIPS 197, NIST SP 800-38A) by the processor's own instructions, any part of a stream.

   The same bytes as any other AES-256-CTR: _native.py compares them before this is used. */
#include <stdint.h>
#include <string.h>

#if defined(__AES__) && defined(__SSE4_1__)
#include <immintrin.h>
#if defined(__VAES__) && defined(__AVX2__)
#define CIPHER_LANES 2
#else
#define CIPHER_LANES 1
#endif
#else
#define CIPHER_LANES 0
#endif

/* How many blocks an instruction works on; 0: there are no such instructions. */
int cipher_lanes(void) { return CIPHER_LANES; }

/* Overwrite what held secrets, although nobody reads it again. */
static void wipe(void *memory, size_t size) {
    memset(memory, 0, size);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

#if CIPHER_LANES
#define ROUNDS 14
#define AT_ONCE 16 /* blocks */

struct cipher {
    __m128i round[ROUNDS + 1];
    uint64_t high, low; /* the counter of block 0 */
};

static __m128i chained(__m128i key, __m128i word) {
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
    return _mm_xor_si128(key, word);
}

#define NEXT_TWO(i, constant)                                                                     \
    c->round[2 * i] = chained(c->round[2 * i - 2],                                                \
        _mm_shuffle_epi32(_mm_aeskeygenassist_si128(c->round[2 * i - 1], constant), 0xff));       \
    if (2 * i + 1 <= ROUNDS)                                                                      \
        c->round[2 * i + 1] = chained(c->round[2 * i - 1],                                        \
            _mm_shuffle_epi32(_mm_aeskeygenassist_si128(c->round[2 * i], 0), 0xaa))

static void open_cipher(struct cipher *c, const uint8_t *key, const uint8_t *counter) {
    c->round[0] = _mm_loadu_si128((const __m128i *)key);
    c->round[1] = _mm_loadu_si128((const __m128i *)(key + 16));
    NEXT_TWO(1, 0x01);
    NEXT_TWO(2, 0x02);
    NEXT_TWO(3, 0x04);
    NEXT_TWO(4, 0x08);
    NEXT_TWO(5, 0x10);
    NEXT_TWO(6, 0x20);
    NEXT_TWO(7, 0x40);
    memcpy(&c->high, counter, 8);
    memcpy(&c->low, counter + 8, 8);
    c->high = __builtin_bswap64(c->high);
    c->low = __builtin_bswap64(c->low);
}

/* The counter of a block as the cipher takes it: 128 bits, the highest byte first. */
static __m128i counter_of(const struct cipher *c, uint64_t block) {
    uint64_t low = c->low + block, high = c->high + (low < block);
    return _mm_set_epi64x((int64_t)__builtin_bswap64(low), (int64_t)__builtin_bswap64(high));
}

/* AT_ONCE blocks of the stream from `block` on. */
static void sixteen(const struct cipher *c, uint64_t block, uint8_t *out) {
#if CIPHER_LANES == 2
    __m256i x[AT_ONCE / 2];
    if (c->low + block <= UINT64_MAX - AT_ONCE) {
        uint64_t low = c->low + block;
        const __m256i swap = _mm256_broadcastsi128_si256(
            _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        int64_t high = (int64_t)(c->high + (low < block));
        __m256i now = _mm256_set_epi64x(high, (int64_t)(low + 1), high, (int64_t)low);
        const __m256i two = _mm256_set_epi64x(0, 2, 0, 2);
        for (int i = 0; i < AT_ONCE / 2; i++) {
            x[i] = _mm256_shuffle_epi8(now, swap);
            now = _mm256_add_epi64(now, two);
        }
    } else { /* the low half runs over within these blocks */
        for (int i = 0; i < AT_ONCE / 2; i++)
            x[i] = _mm256_set_m128i(counter_of(c, block + 2 * i + 1), counter_of(c, block + 2 * i));
    }
    __m256i key = _mm256_broadcastsi128_si256(c->round[0]);
    for (int i = 0; i < AT_ONCE / 2; i++) x[i] = _mm256_xor_si256(x[i], key);
    for (int r = 1; r < ROUNDS; r++) {
        key = _mm256_broadcastsi128_si256(c->round[r]);
        for (int i = 0; i < AT_ONCE / 2; i++) x[i] = _mm256_aesenc_epi128(x[i], key);
    }
    key = _mm256_broadcastsi128_si256(c->round[ROUNDS]);
    for (int i = 0; i < AT_ONCE / 2; i++)
        _mm256_storeu_si256((__m256i *)out + i, _mm256_aesenclast_epi128(x[i], key));
#else
    __m128i x[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        x[i] = _mm_xor_si128(counter_of(c, block + (uint64_t)i), c->round[0]);
    for (int r = 1; r < ROUNDS; r++)
        for (int i = 0; i < AT_ONCE; i++) x[i] = _mm_aesenc_si128(x[i], c->round[r]);
    for (int i = 0; i < AT_ONCE; i++)
        _mm_storeu_si128((__m128i *)out + i, _mm_aesenclast_si128(x[i], c->round[ROUNDS]));
#endif
}

/* Room that `words_at` needs for `bytes`. */
#define ROOM(bytes) (((bytes) / (16 * AT_ONCE) + 2) * 16 * AT_ONCE)

/* Up to 4 arrays whose numbers are wanted next: a word of the stream each. */
struct ahead {
    const float *array[4];
};

/* The stream's bytes from `offset` on, at least `bytes` of them, somewhere in `room`. What is
   `ahead` is called for from memory meanwhile, a little at a time. */
static const uint32_t *words_at(const struct cipher *c, int64_t offset, int64_t bytes,
                                uint8_t *room, const struct ahead *ahead) {
    int64_t skip = offset % 16;
    for (int64_t done = 0; done < skip + bytes; done += 16 * AT_ONCE) {
        if (ahead)
            for (int k = 0; k < 4; k++)
                for (int line = 0; line < 4; line++)
                    __builtin_prefetch((const char *)ahead->array[k] + done + 64 * line, 1, 3);
        sixteen(c, (uint64_t)((offset + done) / 16), room + done);
    }
    return (const uint32_t *)(room + skip);
}

/* `bytes` of the stream from `offset` on: what the rest of this file is compared by. */
void key_stream(const uint8_t *key, const uint8_t *counter, int64_t offset, int64_t bytes,
                uint8_t *out) {
    struct cipher c;
    uint8_t room[ROOM(4096)];
    open_cipher(&c, key, counter);
    for (int64_t done = 0; done < bytes; done += 4096) {
        int64_t part = bytes - done < 4096 ? bytes - done : 4096;
        memcpy(out + done, words_at(&c, offset + done, part, room, 0), (size_t)part);
    }
    wipe(&c, sizeof c);
    wipe(room, sizeof room);
}
#endif
