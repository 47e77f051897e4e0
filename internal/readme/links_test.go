package readme_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/readme"
)

// linked are the pages whose links are checked, as patterns.
var linked = []string{"*.md", "docs/*.md", "examples/*.md", "bench/README.md"}

func TestEachLinkOfTheDocumentsLeadsSomewhere(t *testing.T) {
	var paths []string
	for _, pattern := range linked {
		found, err := filepath.Glob(filepath.Join(root(t), pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		paths = append(paths, found...)
	}
	require.NoError(t, readme.Links(root(t), paths...))
}

func TestALinkThatLeadsNowhereIsReported(t *testing.T) {
	for name, c := range map[string]struct{ text, told string }{
		"no such file":              {"see [this](absent.md)", "PAGE.md:1: absent.md: there is no such file"},
		"no such picture":           {"\n![text](absent.svg)", "PAGE.md:2: absent.svg: there is no such file"},
		"the second of a line":      {"[a](PAGE.md), [b](absent.md)", "absent.md"},
		"a picture that is a link":  {"[![text](absent.svg)](PAGE.md)", "absent.svg"},
		"a definition":              {"[name]: absent.md", "absent.md"},
		"HTML":                      {`<img src="absent.svg">`, "absent.svg"},
		"no such heading here":      {"# Title\n[a](#heading)", "PAGE.md:2: #heading: there is no such heading"},
		"no such heading elsewhere": {"# Title\n[a](docs/other.md#title)", "there is no such heading"},
		"a heading in a code block": {"```\n# Title\n```\n[a](#title)", "there is no such heading"},
		"an anchor in another file": {"[a](docs#title)", "only a Markdown file has anchors"},
		"out of the repository":     {"[a](../)", "the link leads out of the repository"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, links(t, c.text), c.told)
		})
	}
}

func TestALinkThatLeadsSomewhereIsNotReported(t *testing.T) {
	for name, text := range map[string]string{
		"a file, with an anchor":    "[a](docs/other.md#a-heading), [b](docs/other.md \"title\"), [c](docs)",
		"a heading":                 "[a](#title)\n# Title",
		"another site":              "[a](https://example.com/absent.md#a), [b](mailto:a@example.com)",
		"code":                      "`[a](absent.md)` and\n```\n[a](absent.md)\n```",
		"a path with a space in it": "[a](docs/two%20words.md)",
	} {
		t.Run(name, func(t *testing.T) {
			assert.NoError(t, links(t, text))
		})
	}
}

// links checks a page of this text, beside a folder docs with two more.
func links(t *testing.T, text string) error {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "docs"), 0o700))
	for name, text := range map[string]string{"PAGE.md": text, "docs/other.md": "## A heading", "docs/two words.md": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return readme.Links(dir, filepath.Join(dir, "PAGE.md"))
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	assert.Equal(t, map[string]bool{
		"title":                            true,
		"title-1":                          true,
		"title-1-1":                        true,
		"names-and-pubsub-by-version":      true,
		"acquire-acquirelua-rw_acquirelua": true,
		"100--200":                         true,
		"a-link-and-code":                  true,
		"größe":                            true,
	}, readme.Anchors(`
# Title
## Title ##
## Title-1
### Names and pub/sub, by version
### acquire: `+"`acquire.lua`, `rw_acquire.lua`"+`
### 100 & 200
### A [link](https://example.com) and `+"`code`"+`
### Größe
#hashtag
`))
}
