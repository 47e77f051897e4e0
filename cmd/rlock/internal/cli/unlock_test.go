//go:build unix

package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/inspect"
)

// holder returns a process that holds a lock until a line comes.
func (s *site) holder(args ...string) *player {
	p := s.start(append(append([]string{"exec"}, args...), "--", "sh", "-c", "echo ready; read line")...)
	p.expect("ready")
	return p
}

// A lock that another process holds as well is left alone.
func TestUnlockReleasesTheLocksOfAProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.holder("mine")
	reads := s.client.NewReadWriteLock("shared").Read()
	readers := s.holder("-s", "shared")
	s.hold(reads)
	s.hold(s.client.NewLock("other"))
	clientOf := func(name string, not string) string { // of a holder
		i, err := inspect.Of(s.client).Lock(s.ctx, name)
		require.NoError(t, err)
		for _, h := range i.Holders {
			if client := h.Owner[:19]; client != not {
				return client
			}
		}
		t.Fatal("no holder of", name)
		return ""
	}
	own := clientOf("other", "")
	code, stdout, stderr := s.run("", "unlock", "--force", "--process", clientOf("mine", own))
	assert.Zero(t, code, stderr)
	assert.Equal(t, 1, strings.Count(stdout, "is released"))
	assert.Contains(t, stdout, "mine is released")
	assert.Equal(t, 75, p.wait(), "the command was ended")

	code, stdout, stderr = s.run("", "unlock", "--force", "--process", clientOf("shared", own), "sh*")
	assert.Equal(t, 1, code)
	assert.NotContains(t, stdout, "is released")
	assert.Contains(t, stderr, "shared was left alone")
	readers.write("\n")
	assert.Zero(t, readers.wait())
}
