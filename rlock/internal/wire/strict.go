//go:build strict

package wire

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

//go:embed testdata/strict.lua
var strict string

// With the build tag "strict", which only tests have, each script is refused a key that it has not
// declared, but for those of other readers.
func init() {
	for _, s := range []*Script{
		Acquire, Resume, Mirror, PlainStep,
		ReadWriteAcquire, ReadWriteMirror, ReadWriteStep,
		SemaphoreAcquire, SemaphoreResume, SemaphoreMirror, SemaphoreStep,
	} {
		s.text = strict + s.text
		sum := sha1.Sum([]byte(s.text))
		s.sha = hex.EncodeToString(sum[:])
	}
}
