package report_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/report"
)

func TestLoadReadsTheDataThatSaveWroteBesideItsText(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	saved := []struct{ Name string }{{"a"}, {"b"}}
	require.NoError(t, report.Save(folder, saved, "words"))
	var loaded []struct{ Name string }
	require.NoError(t, report.Load(folder, &loaded))
	assert.Equal(t, saved, loaded)
	text, err := os.ReadFile(filepath.Join(folder, "results.md"))
	require.NoError(t, err)
	assert.Equal(t, "words", string(text))
	assert.ErrorIs(t, report.Load(t.TempDir(), &loaded), os.ErrNotExist)
}
