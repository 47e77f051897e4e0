// Package docs has what programs and tests read in the documents.
package docs

import (
	_ "embed"
	"strings"
)

//go:embed operations.md
var operations string

// Rights returns the rules of an ACL line in operations.md, which stands alone in the code block
// after the comment "acl:" with this name: "~orders:*", "+hset" and so on. It returns nil if there
// is none.
func Rights(name string) []string {
	_, rest, _ := strings.Cut(operations, "\n<!-- acl:"+name+" -->\n```\nACL SETUSER locks ")
	line, _, _ := strings.Cut(rest, "\n```")
	if strings.Contains(line, "\n") {
		return nil // it cannot be pasted into redis-cli
	}
	return strings.Fields(line)
}
