package driver

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// A client may hold a hundred thousand locks: what each of them needs keeps to a size of Go's allocator.
func TestWhatAHeldLockNeedsHasSizesOfTheAllocator(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(core.Tenure{}), uintptr(288))
	assert.LessOrEqual(t, unsafe.Sizeof(lock{}), uintptr(256))
	assert.LessOrEqual(t, unsafe.Sizeof(work{}), uintptr(192))
	assert.LessOrEqual(t, unsafe.Sizeof(Name{}), uintptr(96))
}
