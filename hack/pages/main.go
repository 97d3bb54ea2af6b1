// SPDX-License-Identifier: Apache-2.0

// Command pages looks at HTML pages in a headless browser, as people see them: at 400 and at 1,600 pixels, light and dark.
//
//	go run ./hack/pages [-browser PROGRAM] [-screenshots FOLDER] FILE...
//
// A page fails with an error on the console, where it is wider than the window, and where text is too small or has too little contrast to be read.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// probe is put at the beginning of a page. It reports to its parent what it has found.
//
//go:embed probe.js
var probe string

const (
	height = 1000
	// patience bounds one look of the browser.
	patience = time.Minute
)

var (
	widths  = []int{400, 1600}
	schemes = []string{"dark", "light"} // by their number in blink's setting preferredColorScheme
)

func main() {
	browser := flag.String("browser", "chromium", "`program` of the browser")
	screenshots := flag.String("screenshots", "", "`folder` for a picture of each look")
	flag.Parse()
	if err := run(context.Background(), *browser, *screenshots, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, browser, screenshots string, files []string) error {
	if len(files) == 0 {
		return errors.New("no page was named: expected HTML files")
	}
	if _, err := exec.LookPath(browser); err != nil {
		return fmt.Errorf("%w: install Debian's package chromium, or name another browser with -browser", err)
	}
	var failures []error
	for _, file := range files {
		for _, width := range widths {
			for scheme := range schemes {
				l := look{browser: browser, file: file, width: width, scheme: scheme, screenshots: screenshots}
				found, err := l.take(ctx)
				if err != nil {
					return fmt.Errorf("%s: %w", l.name(), err)
				}
				for _, mistake := range found.mistakes() {
					failures = append(failures, fmt.Errorf("%s: %s", l.name(), mistake))
				}
				fmt.Printf("%-60s %4d texts, the smallest %.1f px, the least contrast %.1f\n", l.name(), found.Texts, found.Smallest, found.Contrast)
			}
		}
	}
	return errors.Join(failures...)
}

// look is one page in one window.
type look struct {
	browser, file, screenshots string
	width, scheme              int
}

func (l *look) name() string {
	return fmt.Sprintf("%s at %d px, %s", l.file, l.width, schemes[l.scheme])
}

// take opens the page in a frame of the width: a browser's own window has a least width.
func (l *look) take(ctx context.Context) (*finding, error) {
	page, err := os.ReadFile(l.file)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pages-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	probed := strings.Replace(string(page), "<head>", "<head><script>"+probe+"</script>", 1)
	if probed == string(page) {
		return nil, errors.New("it has no <head>")
	}
	frame := fmt.Sprintf(`<!doctype html><title>a frame</title><body style="margin:0"><iframe src="page.html" style="border:0;width:%dpx;height:%dpx"></iframe>
<pre id="found"></pre><script>addEventListener("message", e => { document.getElementById("found").textContent = e.data })</script>`, l.width, height)
	for name, text := range map[string]string{"page.html": probed, "frame.html": frame} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	dom, err := l.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(dom, `<pre id="found">`)
	text, _, _ := strings.Cut(rest, "</pre>")
	found := &finding{Window: l.width}
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), found); err != nil {
		return nil, fmt.Errorf("the browser reported nothing on the page (%w):\n%s", err, dom)
	}
	return found, nil
}

func (l *look) open(ctx context.Context, dir string) (dom string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + filepath.Join(dir, "profile"), "--virtual-time-budget=3000",
		fmt.Sprintf("--window-size=%d,%d", max(l.width, 500), height), fmt.Sprintf("--blink-settings=preferredColorScheme=%d", l.scheme),
	}
	if l.screenshots != "" {
		picture := fmt.Sprintf("%s-%d-%s.png", strings.TrimSuffix(filepath.Base(l.file), ".html"), l.width, schemes[l.scheme])
		if err := os.MkdirAll(l.screenshots, 0o750); err != nil {
			return "", err
		}
		args = append(args, "--screenshot="+filepath.Join(l.screenshots, picture))
	}
	command := exec.CommandContext(ctx, l.browser, append(args, "--dump-dom", "file://"+filepath.Join(dir, "frame.html"))...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("running %s: %w\n%s", l.browser, err, &stderr)
	}
	return string(out), nil
}
