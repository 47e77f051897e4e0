package readme_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// denials are words by which a document has denied, or might deny, what a function does. That it exists the compiler checks.
var denials = map[string]struct {
	words    string
	function any
}{
	"Hold.Pass":         {`hold (cannot|can not) be (passed|moved|handed)|(cannot|not) (be )?(passed|move|moved) to another process`, (*rlock.Hold).Pass},
	"Hold.Write":        {`cannot (check|guard) a write`, (*rlock.Hold).Write},
	"Hold.Context":      {`(is|are) not told (of a loss|that the lock is lost)`, (*rlock.Hold).Context},
	"Inspector.Lock":    {`cannot (see|tell) who (holds|has) (the|a) lock`, inspect.Inspector.Lock},
	"WithOwner":         {`owner (cannot|can not) be shared`, rlock.WithOwner},
	"Candidate.Observe": {`(cannot|not) hear of (a|each) new leader`, (*elect.Candidate).Observe},
}

func TestNoDocumentDeniesAFunctionThatExists(t *testing.T) {
	for _, pattern := range linked {
		pages, err := filepath.Glob(filepath.Join(root(t), pattern))
		require.NoError(t, err)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for name, d := range denials {
				require.NotNil(t, d.function)
				found := regexp.MustCompile(`(?i)` + regexp.MustCompile(` `).ReplaceAllString(d.words, `\s+`)).FindString(string(text))
				assert.Empty(t, found, "%s denies %s", filepath.Base(page), name)
			}
		}
	}
}
