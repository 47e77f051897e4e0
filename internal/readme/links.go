package readme

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

var (
	// A link or a picture, [text](target "title"), a definition, [name]: target, or
	// an attribute of HTML.
	linkPattern = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|^ {0,3}\[[^\]]+\]:\s*(\S+)|(?:href|src)="([^"]+)"`)
	codePattern = regexp.MustCompile("``[^`]*``|`[^`]*`")

	headingPattern = regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$`)
	textPattern    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	schemePattern  = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9+.-]*:|//)`)
)

// Links reports each relative link of the Markdown files at paths that leads to no file
// or folder inside of root, and each anchor for which the page that it leads to has no
// heading. Links to other sites are not followed.
func Links(root string, paths ...string) error {
	var wrong []error
	for _, path := range paths {
		markdown, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range prose(string(markdown)) {
			for _, match := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(line, ""), -1) {
				link := match[1] + match[2] + match[3]
				if schemePattern.MatchString(link) {
					continue
				}
				if err := follow(root, path, link); err != nil {
					wrong = append(wrong, fmt.Errorf("%s:%d: %s: %w", path, i+1, link, err))
				}
			}
		}
	}
	return errors.Join(wrong...)
}

// follow returns an error if the relative link on the page leads nowhere.
func follow(root, page, link string) error {
	target, err := url.Parse(link)
	if err != nil {
		return err
	}
	path := page
	if target.Path != "" {
		path = filepath.Join(filepath.Dir(page), filepath.FromSlash(target.Path))
	}
	if inside, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(inside) {
		return errors.New("the link leads out of the repository")
	}
	if _, err := os.Stat(path); err != nil {
		return errors.New("there is no such file")
	}
	if target.Fragment == "" {
		return nil
	}
	if filepath.Ext(path) != ".md" {
		return errors.New("only a Markdown file has anchors")
	}
	markdown, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !Anchors(string(markdown))[target.Fragment] {
		return errors.New("there is no such heading")
	}
	return nil
}

// Anchors returns the anchors that GitHub gives to the headings of a Markdown text.
func Anchors(markdown string) map[string]bool {
	anchors := make(map[string]bool)
	repeated := make(map[string]int)
	for _, line := range prose(markdown) {
		heading := headingPattern.FindStringSubmatch(line)
		if heading == nil {
			continue
		}
		first := slug(heading[1])
		anchor := first
		for anchors[anchor] {
			repeated[first]++
			anchor = fmt.Sprintf("%s-%d", first, repeated[first])
		}
		anchors[anchor] = true
	}
	return anchors
}

// slug is the anchor of a heading that no heading above has: the text in lower case, without
// punctuation, with a hyphen for each space.
func slug(heading string) string {
	text := textPattern.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', unicode.IsLetter(r), unicode.In(r, unicode.M, unicode.Nd, unicode.Pc):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, text)
}

// prose returns the lines of a Markdown text; the lines of code blocks between fences are
// empty.
func prose(markdown string) []string {
	lines := strings.Split(markdown, "\n")
	inside := ""
	for i, line := range lines {
		line = strings.TrimSpace(line)
		switch {
		case inside != "":
			if line == inside {
				inside = ""
			}
			lines[i] = ""
		case strings.HasPrefix(line, "```"):
			inside = fence
			lines[i] = ""
		}
	}
	return lines
}
