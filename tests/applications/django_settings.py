"""Django's tests over PyMySQL, which stands for mysqlclient."""
import os

import pymysql

pymysql.version_info = (2, 2, 7, "final", 0)
pymysql.__version__ = "2.2.7"
pymysql.install_as_MySQLdb()


def database(name):
    return {
        "ENGINE": "django.db.backends.mysql",
        "HOST": "127.0.0.1",
        "PORT": os.environ["APP_PORT"],
        "NAME": name,
        "USER": "app",
        "PASSWORD": os.environ["APP_PASSWORD"],
        "TEST": {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_0900_ai_ci"},
    }


DATABASES = {"default": database("app"), "other": database("other")}
SECRET_KEY = "of a test"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
