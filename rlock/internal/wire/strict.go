//go:build strict

package wire

import _ "embed"

//go:embed testdata/strict.lua
var strict string

// With the build tag "strict", which only tests have, each script is refused a key that it has not
// declared, but for those of other readers.
func init() {
	for _, s := range []*Script{
		Acquire, Resume, Mirror, AskAcquire, PlainStep, PlainAskStep,
		ReadWriteAcquire, ReadWriteMirror, ReadWriteStep,
		SemaphoreAcquire, SemaphoreResume, SemaphoreMirror, SemaphoreStep,
		AcquireAll, ReadWriteAcquireAll, SemaphoreAcquireAll,
	} {
		s.BeStrict()
	}
	for _, g := range []*Guard{PlainGuard, ReadWriteGuard, SemaphoreGuard} {
		g.looks = strict + g.looks
	}
	conditionBegins = strict + conditionBegins
}

// BeStrict puts the prelude before the script, which has not been called yet: package redisson has
// scripts, too.
func (s *Script) BeStrict() { *s = *ScriptOf(strict + s.text) }
