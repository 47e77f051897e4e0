package cost

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// scripts are rlock's, as package wire puts them together, and redislock's release.
type scripts struct{ acquire, step, mirror, release string }

// load reads them from the folder of package wire. That they are what a client loads is checked, see Measure.
func load(folder string) (s scripts, err error) {
	text := func(names ...string) string {
		all := ""
		for _, name := range names {
			data, failed := os.ReadFile(filepath.Join(folder, name+".lua"))
			if failed != nil {
				err = fmt.Errorf("cost: say where rlock's scripts are: %w", failed)
			}
			all += string(data)
		}
		return all
	}
	whole := func(names ...string) string {
		all := strings.Replace(text(names...), "-- (swift.lua)\n", text("swift"), 1)
		return strings.Replace(all, "-- (owners.lua)\n", text("owners"), 1)
	}
	s = scripts{acquire: whole("acquire"), step: whole("plain", "queue", "foreign", "grant"), mirror: whole("others", "mirror")}
	s.release = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`
	return s, err
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
