//go:build strict

package wire

import _ "embed"

//go:embed testdata/strict.lua
var strict string

// With the build tag "strict", which only tests set, each script is refused the keys that it has
// not declared, except the keys of other readers.
func init() {
	for _, s := range []*Script{
		Acquire, Resume, Mirror, clockedAcquire, PlainStep, plainClockedStep,
		ReadWriteAcquire, ReadWriteMirror, ReadWriteStep,
		SemaphoreAcquire, SemaphoreResume, SemaphoreMirror, semaphoreStep,
		plainTakeover, readWriteTakeover, semaphoreTakeover, letThrough,
		AcquireAll, readWriteAcquireAll, semaphoreAcquireAll,
	} {
		s.BeStrict()
	}
	for _, g := range []*Guard{plainGuard, readWriteGuard, semaphoreGuard} {
		g.looks = strict + g.looks
	}
	conditionBegins = strict + conditionBegins
}

// BeStrict does the same for a script of another package, which has not been called yet.
func (s *Script) BeStrict() { *s = *ScriptOf(strict + s.text) }
