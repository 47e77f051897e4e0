package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

func TestEachContenderHasARow(t *testing.T) {
	*addr = redistest.Standalone(t).Addr()
	*names, *rounds, *pairs, *goroutines = "rlock,redislock-exp,floor-evalsha", 2, 5, 3
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	for _, name := range []string{"rlock", "redislock-exp", "floor-evalsha"} {
		row := regexp.MustCompile(`(?m)^\| ` + name + ` \|( [1-9]\d*(\.\d+)? \|| 0\.\d+ \|){6}$`)
		assert.Regexp(t, row, out.String())
	}
	*names = "rlock,broken-one"
	require.ErrorContains(t, run(t.Context(), &out), `"broken-one"`)
}
