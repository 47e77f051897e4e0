package readme

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	code    = regexp.MustCompile("(?ms)^ *```.*?^ *```|``[^`]*``|`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|(?m:^ {0,3}\[[^\]]+\]:\s*(\S+))|(?:href|src)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$`)
	text    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	scheme  = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9+.-]*:|//)`)
	fences  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// links returns what is wrong with the relative links of a page.
func links(t *testing.T, page string) (wrong []string) {
	t.Helper()
	markdown, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(string(markdown), ""), -1) {
		to := match[1] + match[2] + match[3]
		if scheme.MatchString(to) {
			continue
		}
		target, err := url.Parse(to)
		require.NoError(t, err)
		path := page
		if target.Path != "" {
			path = filepath.Join(filepath.Dir(page), filepath.FromSlash(target.Path))
		}
		if _, err := os.Stat(path); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %s: there is no such file", page, to))
		} else if target.Fragment != "" && !anchors(t, path)[target.Fragment] {
			wrong = append(wrong, fmt.Sprintf("%s: %s: there is no such heading", page, to))
		}
	}
	return wrong
}

// anchors returns the anchors that GitHub gives to the headings of a page: the text in lower case,
// without punctuation, with a hyphen for each space, and a number if a heading above has it.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	markdown, err := os.ReadFile(page)
	require.NoError(t, err)
	all := make(map[string]bool)
	for _, match := range heading.FindAllStringSubmatch(fences.ReplaceAllString(string(markdown), ""), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', unicode.IsLetter(r), unicode.In(r, unicode.M, unicode.Nd, unicode.Pc):
				return unicode.ToLower(r)
			}
			return -1
		}, text.ReplaceAllString(match[1], "$1"))
		anchor := slug
		for n := 1; all[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", slug, n)
		}
		all[anchor] = true
	}
	return all
}

func TestEachLinkOfTheDocumentsLeadsSomewhere(t *testing.T) {
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "bench/README.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, pages, pattern)
		for _, page := range pages {
			assert.Empty(t, links(t, page))
		}
	}
}

func TestALinkThatLeadsNowhereIsReported(t *testing.T) {
	page := filepath.Join(t.TempDir(), "PAGE.md")
	for markdown, wrong := range map[string]int{
		"see [this](absent.md), ![that](absent.svg)\n\n[name]: absent.md\n<img src=\"absent.svg\">": 4,
		"```\n# Title\n```\n[a](#title)": 1,
		"[a](#title), [b](PAGE.md#größe-1 \"title\"), `[a](absent.md)`\n# Title ##\n# Größe\n# Größe\n": 0,
	} {
		require.NoError(t, os.WriteFile(page, []byte(markdown), 0o600))
		assert.Len(t, links(t, page), wrong, markdown)
	}
}
