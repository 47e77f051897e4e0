//go:build unix

package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/doctor"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestTheExitCodeOfDoctorIsThatOfTheWorstFinding(t *testing.T) {
	t.Parallel()
	needsServer(t)
	for what, c := range map[string]struct {
		args  []string
		code  int
		onRed int // with --fail-on red
	}{
		"yellow": {[]string{"--appendonly", "no"}, 1, 0},
		"red":    {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, 2, 2},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.addr = redistest.Standalone(t, c.args...).Addr()
			code, stdout, stderr := s.run("", "doctor", "--json")
			assert.Equal(t, c.code, code, stderr)
			code, _, stderr = s.run("", "doctor", "--fail-on", "red")
			assert.Equal(t, c.onRed, code, stderr)
			var report struct {
				Level    string           `json:"level"`
				Findings []doctor.Finding `json:"findings"`
			}
			require.NoError(t, json.Unmarshal([]byte(stdout), &report))
			assert.Equal(t, what, report.Level)
			assert.Greater(t, len(report.Findings), 10)

			_, stdout, _ = s.run("", "doctor")
			assert.Regexp(t, `(?m)^`+what+` +\w+ +\S`, stdout)
			assert.Contains(t, stdout, "remedy: ")
			assert.NotContains(t, stdout, "\x1b", "a pipe has no colours")
		})
	}
}
