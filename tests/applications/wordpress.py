"""A WordPress that is installed, filled and looked at as browsers do; a line for each page, without what differs from one
run to the next.

usage: wordpress.py PORT PASSWORD, with PHP, the command of a PHP with mysqli, and WORDPRESS, its folder
"""
import html
import http.cookiejar
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import xmlrpc.client
from pathlib import Path

CONFIG = """<?php
define('DB_NAME', 'app'); define('DB_USER', 'app'); define('DB_PASSWORD', '%s'); define('DB_HOST', '127.0.0.1:%s');
define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
foreach (['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY', 'AUTH_SALT', 'SECURE_AUTH_SALT',
          'LOGGED_IN_SALT', 'NONCE_SALT'] as $name) define($name, 'the same');
define('WP_DEBUG', true); define('WP_DEBUG_LOG', '%s'); define('WP_DEBUG_DISPLAY', false);
define('DISABLE_WP_CRON', true); define('AUTOMATIC_UPDATER_DISABLED', true); define('WP_HTTP_BLOCK_EXTERNAL', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
"""
POSTS = 12


class Site:
    def __init__(self, folder, at):
        self.at = at
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        self.folder = folder

    def page(self, path, form=None):
        data = urllib.parse.urlencode(form).encode() if form else None
        try:
            with self.opener.open(f"{self.at}{path}", data, timeout=120) as answer:
                status, body = answer.status, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read().decode("utf-8", "replace")
        body = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", body.replace(self.at, ""))
        # An address is written in entities that are drawn.
        body = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())
        # Nonces, and times of the run.
        body = re.sub(r"\b[0-9a-f]{10,64}\b", "H", body)
        body = re.sub(r"\b\d\d \d\d \d{4} \d\d \d\d \d\d\b", "T", body)
        body = re.sub(r"\d+(:\d+)+( ?[ap]m)?|\d+ (second|minute|min)s?\b", "T", body)
        return f"{path}: {status} {body}"


def lines(site):
    install = {"weblog_title": "Shop", "user_name": "admin", "admin_password": "secret", "admin_password2": "secret",
               "pw_weak": "1", "admin_email": "a@example.com", "blog_public": "0", "language": ""}
    yield site.page("/wp-admin/install.php?step=2", install)
    yield site.page("/wp-login.php", {"log": "admin", "pwd": "secret", "testcookie": "1", "redirect_to": "/wp-admin/"})
    calls = xmlrpc.client.ServerProxy(f"{site.at}/xmlrpc.php")
    posts = []
    for number in range(POSTS):
        content = {"post_title": f"Post {number}", "post_content": f"Words of {number}, naïve ☕ and common",
                   # Those of one moment have no order.
                   "post_date": xmlrpc.client.DateTime(f"20260102T03:{number:02}:00"),
                   "post_status": "publish" if number % 5 else "draft", "comment_status": "open",
                   "terms_names": {"category": [f"Category {number % 3}"], "post_tag": [f"tag{number % 4}", "all"]}}
        posts.append(calls.wp.newPost(1, "admin", "secret", content))
    yield f"posts {posts}"
    for number in posts[:6]:
        calls.wp.editPost(1, "admin", "secret", number, {"post_content": f"Other words of {number}, common"})
        comment = {"comment": f"Says something of {number}", "comment_post_ID": number, "comment_parent": "0"}
        yield site.page("/wp-comments-post.php", comment)
    for _ in range(3):
        yield site.page("/")
        yield site.page("/?paged=2")
        for number in posts:
            yield site.page(f"/?p={number}")
        for path in ["s=common", "s=nothing", "cat=1", "cat=2", "tag=all", "tag=tag1", "m=202601", "author=1",
                     "feed=rss2", "feed=comments-rss2", "p=99999", "rest_route=/wp/v2/posts&_fields=id,title"]:
            yield site.page(f"/?{path}")
    for path in ["", "edit.php", "edit.php?orderby=title&order=asc", "edit-comments.php", "edit-tags.php?taxonomy=category",
                 "users.php", "options-general.php", "upload.php", "profile.php", "edit.php?post_status=draft"]:
        yield site.page(f"/wp-admin/{path}")
    yield f"deleted {calls.wp.deletePost(1, 'admin', 'secret', posts[1])}"
    yield site.page("/wp-admin/edit.php?post_status=trash")
    yield site.page("/")


def main():
    port, password = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "site")
        shutil.copytree(os.environ["WORDPRESS"], folder, symlinks=True, ignore_dangling_symlinks=True)
        (folder / "wp-config.php").unlink(missing_ok=True)
        (folder / "wp-config.php").write_text(CONFIG % (password, port, Path(home, "errors")), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            at = f"127.0.0.1:{free.getsockname()[1]}"
        command = [*shlex.split(os.environ["PHP"]), "-S", at, "-t", str(folder)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                with socket.socket() as test:
                    if test.connect_ex(("127.0.0.1", int(at.rsplit(":", 1)[1]))) == 0:
                        break
                time.sleep(0.1)
            for line in lines(Site(folder, f"http://{at}")):
                print(line)
            errors = Path(home, "errors")
            # Of the database only: PHP's own are of its version.
            for line in errors.read_text(encoding="utf-8").splitlines() if errors.exists() else []:
                if "database error" in line:
                    print(re.sub(r"^\[[^]]*\] ", "", line))
        finally:
            server.terminate()
            server.wait(60)


main()
