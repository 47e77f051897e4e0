package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// permutedBits is how many bits a permutation works on.
const permutedBits = 60

// A permutation maps each number of permutedBits bits to another one, by a random key. So the
// numbers of a counter come out each once, and from some of them no other can be computed
// without the key. It is a Feistel network over two halves, whose round function is AES.
type permutation struct {
	block cipher.Block
	// spaces are what AES reads and writes. They are used again, since each would be allocated.
	spaces sync.Pool
}

const (
	permutedHalf = permutedBits / 2
	// permutedRounds is so many that the network cannot be told from a random permutation by
	// observers of far fewer than 2^30 of its numbers (Patarin, Security of Random Feistel
	// Schemes with 5 or More Rounds, 2004).
	permutedRounds = 6
)

type permutationSpace struct{ in, out [aes.BlockSize]byte }

// newPermutation returns one with a key of its own.
func newPermutation() *permutation {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // which never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // 16 bytes are a key
	}
	return &permutation{block: block, spaces: sync.Pool{New: func() any { return new(permutationSpace) }}}
}

// of returns what n, of which the lowest permutedBits bits count, is mapped to. It may be called
// concurrently.
func (p *permutation) of(n uint64) uint64 {
	const mask = 1<<permutedHalf - 1
	left, right := uint32(n>>permutedHalf)&mask, uint32(n)&mask
	s := p.spaces.Get().(*permutationSpace)
	for round := range permutedRounds {
		s.in[0] = byte(round)
		binary.LittleEndian.PutUint32(s.in[4:], right)
		p.block.Encrypt(s.out[:], s.in[:])
		left, right = right, left^binary.LittleEndian.Uint32(s.out[:])&mask
	}
	p.spaces.Put(s)
	return uint64(left)<<permutedHalf | uint64(right)
}
