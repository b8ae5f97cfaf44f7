<?php
// What Laravel's Eloquent and query builder read and write, printed: php eloquent.php PORT PASSWORD
declare(strict_types=1);
error_reporting(E_ALL & ~E_DEPRECATED);
require 'Illuminate/Database/autoload.php';
require 'Illuminate/Pagination/autoload.php';
require 'Illuminate/Events/autoload.php';

use Illuminate\Container\Container;
use Illuminate\Database\Capsule\Manager as DB;
use Illuminate\Database\Eloquent\Builder;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Database\Eloquent\SoftDeletes;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Events\Dispatcher;

$db = new DB();
$db->addConnection([
    'driver' => 'mysql', 'host' => '127.0.0.1', 'port' => $argv[1], 'username' => 'app', 'password' => $argv[2],
    'database' => 'app', 'charset' => 'utf8mb4', 'collation' => 'utf8mb4_unicode_ci', 'strict' => true,
]);
$db->setEventDispatcher(new Dispatcher(new Container()));
$db->setAsGlobal();
$db->bootEloquent();

class Author extends Model
{
    protected $guarded = [];
    public $timestamps = false;

    public function posts()
    {
        return $this->hasMany(Post::class);
    }
}

class Post extends Model
{
    use SoftDeletes;

    protected $guarded = [];
    protected $casts = ['options' => 'array', 'shown' => 'boolean'];
    protected $hidden = ['created_at', 'updated_at', 'deleted_at'];

    public function author()
    {
        return $this->belongsTo(Author::class);
    }

    public function tags()
    {
        return $this->belongsToMany(Tag::class)->withPivot('place');
    }

    public function scopeShown(Builder $query): Builder
    {
        return $query->where('shown', true);
    }
}

class Tag extends Model
{
    protected $guarded = [];
    public $timestamps = false;

    public function posts()
    {
        return $this->belongsToMany(Post::class);
    }
}

function show(string $what, $value): void
{
    echo $what, ': ', json_encode($value), "\n";
}

function tables(): void
{
    $schema = DB::schema();
    foreach (['post_tag', 'tags', 'posts', 'authors', 'jobs'] as $table) {
        $schema->dropIfExists($table);
    }
    $schema->create('authors', function (Blueprint $table) {
        $table->id();
        $table->string('name')->unique();
        $table->date('born')->nullable();
    });
    $schema->create('posts', function (Blueprint $table) {
        $table->id();
        $table->foreignId('author_id')->constrained()->cascadeOnDelete();
        $table->string('title')->index();
        $table->decimal('price', 8, 2)->default(0);
        $table->unsignedInteger('hits')->default(0);
        $table->boolean('shown')->default(true);
        $table->json('options')->nullable();
        $table->timestamps();
        $table->softDeletes();
    });
    $schema->create('tags', function (Blueprint $table) {
        $table->id();
        $table->string('name')->unique();
    });
    $schema->create('post_tag', function (Blueprint $table) {
        $table->foreignId('post_id')->constrained()->cascadeOnDelete();
        $table->foreignId('tag_id')->constrained()->cascadeOnDelete();
        $table->integer('place')->default(0);
    });
    $schema->create('jobs', function (Blueprint $table) {
        $table->id();
        $table->string('queue')->index();
        $table->longText('payload');
        $table->unsignedInteger('reserved_at')->nullable();
    });
    show('columns', $schema->getColumnListing('posts'));
    show('has', [$schema->hasTable('tags'), $schema->hasTable('nothing'), $schema->hasColumn('posts', 'hits')]);
}

function fill(): void
{
    $tags = array_map(fn ($name) => Tag::create(['name' => $name]), ['red', 'green', 'blue']);
    for ($n = 0; $n < 20; $n++) {
        $author = Author::firstOrCreate(['name' => 'author ' . $n % 6], ['born' => sprintf('19%02d-02-03', 10 + $n)]);
        $post = DB::connection()->transaction(function () use ($author, $tags, $n) {
            $post = $author->posts()->create([
                'title' => "post $n", 'price' => $n + 0.5, 'shown' => $n % 3 > 0, 'options' => ['n' => $n, 'even' => $n % 2 == 0],
            ]);
            $post->tags()->attach($tags[$n % 3]->id, ['place' => $n]);
            $post->tags()->syncWithoutDetaching([$tags[($n + 1) % 3]->id => ['place' => 1]]);
            return $post;
        });
        show('fresh', $post->fresh()->toArray());
        $post->increment('hits', $n);
        show('found', Post::findOrFail($post->id)->hits);
        show('of the author', $author->posts()->count());
    }
}

function read(): void
{
    show('page', Post::shown()->with('author', 'tags')->orderByDesc('id')->paginate(4, ['*'], 'page', 2)->map(
        fn ($post) => [$post->title, $post->author->name, $post->tags->sortBy('id')->pluck('name')->values()]
    ));
    show('counts', Author::withCount('posts')->orderBy('id')->get()->toArray());
    show('has', Author::whereHas('posts', fn ($query) => $query->where('price', '>', 17))->orderBy('id')->pluck('name'));
    show('in', Post::whereIn('id', [2, 3, 5])->where('hits', '>', 1)->orderBy('id')->get(['id', 'title', 'price'])->toArray());
    show('sum', [Post::sum('price'), Post::max('hits'), Post::avg('hits'), Post::where('shown', 0)->exists()]);
    show('grouped', DB::table('posts')->selectRaw('author_id, COUNT(*) AS n')->groupBy('author_id')->orderBy('author_id')->get());
    show('joined', DB::table('posts')->join('authors', 'authors.id', '=', 'posts.author_id')->where('authors.name', 'author 3')
        ->orderBy('posts.id')->get(['title', 'name']));
    show('json', Post::where('options->n', 7)->pluck('title'));
    show('first', Author::where('name', 'author 2')->first()->born);
    show('of day', DB::table('authors')->whereDate('born', '1912-02-03')->count());
    Post::orderBy('id')->chunkById(7, fn ($posts) => show('chunk', $posts->count()));
    show('like', Post::where('title', 'like', '%1%')->orWhere('hits', 4)->orderBy('id')->pluck('id'));
}

function change(): void
{
    Post::where('hits', '<', 3)->delete();
    show('left', [Post::count(), Post::withTrashed()->count(), Post::onlyTrashed()->orderBy('id')->pluck('id')]);
    Post::withTrashed()->find(1)->restore();
    DB::table('tags')->upsert([['name' => 'red'], ['name' => 'black']], ['name'], ['name']);
    show('tags', Tag::orderBy('name')->pluck('name'));
    DB::connection()->transaction(function () {
        $post = Post::where('title', 'post 9')->lockForUpdate()->first();
        $post->update(['price' => 99.5]);
        show('own change', [$post->fresh()->price, Post::find(10)->title, Author::find(2)->name]);
    });
    try {
        DB::connection()->transaction(function () {
            show('read first', Author::find(1)->name);
            Author::query()->delete();
            show('deleted', [Author::count(), Post::count()]);
            throw new RuntimeException('undone');
        });
    } catch (RuntimeException $error) {
        show('rolled back', [$error->getMessage(), Author::count(), Post::count()]);
    }
    DB::connection()->transaction(function () {
        show('outer', Author::find(1)->name);
        try {
            DB::connection()->transaction(fn () => Author::create(['name' => 'author 1']));
        } catch (Illuminate\Database\QueryException $error) {
            show('refused', $error->errorInfo[1]);
        }
        Author::create(['name' => 'another']);
    });
    show('authors', Author::orderBy('id')->pluck('name'));
}

/** As workers take them. */
function jobs(): void
{
    for ($n = 0; $n < 10; $n++) {
        DB::table('jobs')->insert(['queue' => 'default', 'payload' => "job $n"]);
    }
    while ($job = DB::connection()->transaction(function () {
        $job = DB::table('jobs')->where('queue', 'default')->whereNull('reserved_at')->orderBy('id')->lock('FOR UPDATE SKIP LOCKED')->first();
        if ($job) {
            DB::table('jobs')->where('id', $job->id)->update(['reserved_at' => 1]);
        }
        return $job;
    })) {
        show('job', $job->payload);
        DB::table('jobs')->where('id', $job->id)->delete();
    }
    show('jobs', DB::table('jobs')->count());
}

foreach (['tables', 'fill', 'read', 'change', 'jobs'] as $part) {
    $part();
}
